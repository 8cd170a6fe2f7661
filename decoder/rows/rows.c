/* rows.c: clairon.rows() and clairon.live_rows(), the rows that a live rule addresses to a user. */
#include "postgres.h"

#include "access/relation.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "encode/encode.h"
#include "rows/key.h"
#include "rows/logged.h"
#include "rows/overdue.h"
#include "rows/recipient.h"
#include "rows/scan.h"
#include "rows/source.h"
#include "rows/tree.h"
#include "rules/rules.h"
#include "sql/snapshot.h"

PG_FUNCTION_INFO_V1(clairon_rows);
PG_FUNCTION_INFO_V1(clairon_live_rows);

/* One call. Results have type json or text, which have the same binary form. */
struct call {
    ReturnSetInfo *result;
    struct rule *rule;
    const char *user_id;
    Jsonb *groups;
    int max_rows;
    int64 max_bytes;
    Relation relation;
    List *tree;
    struct row_key key;
    struct recipient recipient;
};

static void
reject_nulls(FunctionCallInfo fcinfo, const char *const *parameters)
{
    for (int i = 0; i < PG_NARGS(); i++)
        if (PG_ARGISNULL(i))
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("parameter \"%s\" must not be null", parameters[i])));
}

static void
reject_negative(int64 value, const char *parameter)
{
    if (value < 0)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("invalid value for parameter \"%s\": %lld", parameter, (long long)value),
                 errhint("The value must not be negative.")));
}

/*
 * Applies the decoder's settings to the query, the values and the conditions. The caller's
 * temporary types must not mask the types of pg_catalog. Without statistics the planner
 * overestimates rows, and JIT compilation would need seconds.
 */
static void
fix_settings(void)
{
    output_settings_fix(GUC_ACTION_SAVE);
    (void)set_config_option("search_path", "pg_catalog, pg_temp", PGC_SUSET, PGC_S_SESSION,
                            GUC_ACTION_SAVE, true, 0, false);
    (void)set_config_option("jit", "off", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                            false);
}

/* Opens the relation of the rule. Returns false when it was dropped. */
static bool
open_relation(struct call *call)
{
    call->relation = try_relation_open(call->rule->relid, AccessShareLock);
    if (call->relation == NULL)
        return false;
    call->tree = tree_check(call->relation);
    row_key_read(&call->key, call->relation);
    logged_check(call->rule, call->relation, &call->key, call->tree);
    return true;
}

static bool
has_target_column(const struct rule *rule)
{
    return rule->target_column != 0 || rule->part_count > 0;
}

/* True when all rows are addressed to the user, or a column determines which rows are. */
static bool
may_address(const struct call *call)
{
    return has_target_column(call->rule) ||
           recipient_is_addressed(&call->recipient, &call->rule->literal);
}

static void
put_result(void *arg, struct fragment row)
{
    struct call *call = arg;
    Datum value = PointerGetDatum(cstring_to_text_with_len(row.bytes, row.len));
    bool is_null = false;

    tuplestore_putvalues(call->result->setResult, call->result->setDesc, &value, &is_null);
    pfree(DatumGetPointer(value));
}

static void
put_rows(struct call *call)
{
    struct row_scan scan = {.rule = call->rule,
                            .relation = call->relation,
                            .tree = call->tree,
                            .key = &call->key,
                            .recipient = &call->recipient,
                            .max_rows = call->max_rows,
                            .max_bytes = call->max_bytes,
                            .put = put_result,
                            .arg = call};

    row_scan_run(&scan);
}

/* Returns the first row of live_rows, which is the header for the relay. */
static void
put_header(struct call *call)
{
    const struct encode_settings settings = {.ascii = GetDatabaseEncoding() != PG_UTF8,
                                             .limit = PG_INT32_MAX};
    TupleDesc desc = RelationGetDescr(call->relation);
    StringInfoData header;

    initStringInfo(&header);
    encode_literal(&header, "{\"key\":[");
    for (int i = 0; i < call->key.count; i++) {
        const char *name = NameStr(TupleDescAttr(desc, call->key.numbers[i] - 1)->attname);

        if (i > 0)
            encode_literal(&header, ",");
        encode_text(&settings, &header, name, strlen(name));
    }
    appendStringInfo(&header, "],\"snapshot\":\"%s\",\"audience\":\"%s\"}",
                     snapshot_text(GetActiveSnapshot()), call->rule->audience);
    put_result(call, (struct fragment){header.data, header.len});
}

/* Implements both functions. */
static void
run_call(FunctionCallInfo fcinfo, struct call *call, void (*run)(FunctionCallInfo, struct call *))
{
    int level;

    InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
    call->result = (ReturnSetInfo *)fcinfo->resultinfo;
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "could not connect to SPI");
    level = NewGUCNestLevel();
    fix_settings();
    run(fcinfo, call);
    AtEOXact_GUC(false, level);
    if (call->relation != NULL)
        relation_close(call->relation, NoLock);
    SPI_finish();
}

static const char *
relation_name(Oid relid)
{
    return DatumGetCString(DirectFunctionCall1(regclassout, ObjectIdGetDatum(relid)));
}

static _Noreturn void
raise_no_rule(Oid relid, const char *name)
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("rule \"%s\" on %s does not exist", name, relation_name(relid))));
}

static void
run_rows(FunctionCallInfo fcinfo, struct call *call)
{
    Oid relid = PG_GETARG_OID(0);
    const char *name = text_to_cstring(PG_GETARG_TEXT_PP(2));
    List *rules = rules_find(relid, name, GetActiveSnapshot());

    if (rules == NIL)
        raise_no_rule(relid, name);
    call->rule = linitial(rules);
    if (!call->rule->live)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("rule \"%s\" on %s is not live", name, relation_name(relid)),
                        errhint("Set it again with clairon.watch(.., live => true).")));
    recipient_load(&call->recipient, call->rule, call->user_id, call->groups);
    if (!open_relation(call))
        raise_no_rule(relid, name);
    if (may_address(call))
        put_rows(call);
}

/*
 * rows(relation regclass, user_id text, name text, groups jsonb, max_rows int4) -> setof json: see
 * sql/rows.sql.
 */
Datum
clairon_rows(PG_FUNCTION_ARGS)
{
    static const char *const parameters[] = {"relation", "user_id", "name", "groups", "max_rows"};
    struct call call = {.max_bytes = PG_INT64_MAX};

    reject_nulls(fcinfo, parameters);
    call.user_id = text_to_cstring(PG_GETARG_TEXT_PP(1));
    call.groups = PG_GETARG_JSONB_P(3);
    call.max_rows = PG_GETARG_INT32(4);
    reject_negative(call.max_rows, "max_rows");
    run_call(fcinfo, &call, run_rows);
    return (Datum)0;
}

/* Returns no header if there is no such rule, it is not live, or it does not address the user. */
static void
run_live_rows(FunctionCallInfo fcinfo, struct call *call)
{
    const char *source = text_to_cstring(PG_GETARG_TEXT_PP(0));
    const char *name = text_to_cstring(PG_GETARG_TEXT_PP(1));

    call->rule = source_find_rule(source, name);
    if (call->rule == NULL)
        return;
    recipient_load(&call->recipient, call->rule, call->user_id, call->groups);
    if (!may_address(call) || !open_relation(call))
        return;
    put_header(call);
    put_rows(call);
}

/*
 * live_rows(source text, name text, user_id text, groups jsonb, max_rows int4, max_bytes int8) ->
 * setof text: see sql/rows.sql.
 */
Datum
clairon_live_rows(PG_FUNCTION_ARGS)
{
    static const char *const parameters[] = {"source", "name",     "user_id",
                                             "groups", "max_rows", "max_bytes"};
    struct call call = {0};
    bool is_timed;

    reject_nulls(fcinfo, parameters);
    call.user_id = text_to_cstring(PG_GETARG_TEXT_PP(2));
    call.groups = PG_GETARG_JSONB_P(3);
    call.max_rows = PG_GETARG_INT32(4);
    call.max_bytes = PG_GETARG_INT64(5);
    reject_negative(call.max_rows, "max_rows");
    reject_negative(call.max_bytes, "max_bytes");
    is_timed = overdue_begin();
    PG_TRY();
    {
        run_call(fcinfo, &call, run_live_rows);
    }
    PG_FINALLY();
    {
        if (is_timed)
            overdue_end();
    }
    PG_END_TRY();
    return (Datum)0;
}
