/*
 * user_rows.c: clairon.rows() and clairon.live_rows(), the rows that a live rule addresses to a
 * user, and clairon.snapshot(), the calling statement's snapshot as text.
 */
#include "sql/user_rows.h"

#include <signal.h>

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "base/data.h"
#include "encode/encode.h"
#include "rules/rules.h"

PG_FUNCTION_INFO_V1(clairon_rows);
PG_FUNCTION_INFO_V1(clairon_live_rows);
PG_FUNCTION_INFO_V1(clairon_snapshot);
PG_FUNCTION_INFO_V1(clairon_has_order);

/*
 * A client compares the text of a snapshot with the id of a notification's top-level transaction.
 * The change is contained in the snapshot if the id is below xmin, or below xmax and not in the
 * list. The list is exact for top-level ids, since PostgreSQL determines visibility by the same
 * lists (XidInMVCCSnapshot). On a primary, `xip` contains the running top-level transactions. On a
 * standby, `subxip` contains all running ids, and `xip` is empty, so pg_current_snapshot() shows
 * these transactions as finished. An overflow never removes a top-level id: KnownAssignedXids drops
 * only subtransactions, whose parents are then found in pg_subtrans. The subtransaction ids in
 * `subxip` are harmless.
 */

static int
compare_ids(const void *a, const void *b)
{
    const uint64 left = *(const uint64 *)a;
    const uint64 right = *(const uint64 *)b;

    return left < right ? -1 : left > right;
}

/*
 * The caller's own transaction, if it has an id, counts as not contained: only its earlier changes
 * are visible to the snapshot. Applying these again yields the same rows, while a skipped later
 * change would be lost.
 */
static int
list_running(Snapshot snapshot, FullTransactionId next, uint64 *ids)
{
    const TransactionId *running = snapshot->takenDuringRecovery ? snapshot->subxip : snapshot->xip;
    int count = snapshot->takenDuringRecovery ? snapshot->subxcnt : (int)snapshot->xcnt;
    TransactionId own = GetTopTransactionIdIfAny();

    for (int i = 0; i < count; i++)
        ids[i] = full_xid(running[i], next);
    if (TransactionIdIsValid(own) && TransactionIdPrecedes(own, snapshot->xmax))
        ids[count++] = full_xid(own, next);
    qsort(ids, count, sizeof(*ids), compare_ids);
    return count;
}

/* The bytes of the page header before this position, if the page has no record yet. */
static XLogRecPtr
empty_page_bytes(XLogRecPtr at)
{
    const XLogRecPtr offset = at % XLOG_BLCKSZ;
    const bool is_first = XLogSegmentOffset(at, wal_segment_size) < XLOG_BLCKSZ;

    return offset <= (is_first ? SizeOfXLogLongPHD : SizeOfXLogShortPHD) ? offset : 0;
}

/*
 * After a crash, PostgreSQL reuses an id if no WAL record of its transaction was flushed, for
 * example because it was rolled back. A snapshot from before the crash would then include the later
 * transaction, and clients would skip its changes. A standby replays only flushed WAL.
 */
XLogRecPtr
flush_finished_transactions(void)
{
    XLogRecPtr end;

    if (RecoveryInProgress())
        return InvalidXLogRecPtr;
    end = GetXLogInsertRecPtr();
    end -= empty_page_bytes(end); /* XLogFlush rejects a position after the last record */
    XLogFlush(end);
    return end;
}

/* Returns xmin:xmax:xip,xip.. with 64-bit ids in decimal, in the current memory context. */
static char *
snapshot_text(Snapshot snapshot)
{
    FullTransactionId next = ReadNextFullTransactionId();
    StringInfoData text;
    uint64 *ids;
    int count;

    if (snapshot->snapshot_type != SNAPSHOT_MVCC)
        elog(ERROR, "unexpected snapshot type %d", (int)snapshot->snapshot_type);
    (void)flush_finished_transactions();
    ids = palloc(sizeof(*ids) * (snapshot->xcnt + Max(snapshot->subxcnt, 0) + 1));
    count = list_running(snapshot, next, ids);
    initStringInfo(&text);
    appendStringInfo(&text, UINT64_FORMAT ":" UINT64_FORMAT ":", full_xid(snapshot->xmin, next),
                     full_xid(snapshot->xmax, next));
    for (int i = 0; i < count; i++)
        appendStringInfo(&text, i > 0 ? "," UINT64_FORMAT : UINT64_FORMAT, ids[i]);
    pfree(ids);
    return text.data;
}

/* snapshot() -> text */
Datum
clairon_snapshot(PG_FUNCTION_ARGS)
{
    PG_RETURN_TEXT_P(cstring_to_text(snapshot_text(GetActiveSnapshot())));
}

/*
 * Ends a backend whose query ignores statement_timeout.
 *
 * The planner may run code of the table's owner, which can catch a cancellation and continue, but
 * not a termination.
 */

/* Longer than the relay waits: the relay then reports a timeout, not a lost connection. */
#define GRACE_MS 2000

static TimeoutId timer = MAX_TIMEOUTS; /* not registered */

static void
on_timer(void)
{
    die(SIGTERM);
}

/*
 * Ends this process, as pg_terminate_backend does, two seconds after statement_timeout. Returns
 * false without statement_timeout, or if an outer call has set the timer.
 */
static bool
overdue_begin(void)
{
    if (StatementTimeout <= 0)
        return false;
    if (timer == MAX_TIMEOUTS)
        timer = RegisterTimeout(USER_TIMEOUT, on_timer);
    if (get_timeout_active(timer))
        return false;
    enable_timeout_after(timer, Min(StatementTimeout, PG_INT32_MAX - GRACE_MS) + GRACE_MS);
    return true;
}

static bool
has_source(Oid relid, const char *source)
{
    char *table = get_rel_name(relid);
    char *schema = table == NULL ? NULL : get_namespace_name(get_rel_namespace(relid));

    return schema != NULL && strcmp(rule_source(schema, table), source) == 0;
}

/*
 * The live rule with this name, as of the active snapshot, whose notifications have this source:
 * the table, or schema.table outside of the schema public. NULL: no such rule exists, or several
 * tables with such rules have the same source.
 *
 * Searches the rules instead of resolving the names in the source: clients choose these names, and
 * the server would cache each unknown name.
 */
static struct rule *
source_find_rule(const char *source, const char *name)
{
    struct rule *found = NULL;
    ListCell *cell;

    foreach (cell, rules_find(InvalidOid, name, GetActiveSnapshot())) {
        struct rule *rule = lfirst(cell);

        if (!rule->live || !has_source(rule->relid, source))
            continue;
        if (found != NULL)
            return NULL;
        found = rule;
    }
    return found;
}

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
    struct row_request request;
    struct row_request_input input;
    struct row_scan scan;
};

static void
reject_nulls(FunctionCallInfo fcinfo, const char *const *parameters, int count)
{
    for (int i = 0; i < count; i++)
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

static void
put_result(void *arg, struct fragment row)
{
    struct call *call = arg;
    Datum value = PointerGetDatum(cstring_to_text_with_len(row.bytes, row.len));
    bool is_null = false;

    tuplestore_putvalues(call->result->setResult, call->result->setDesc, &value, &is_null);
    pfree(DatumGetPointer(value));
}

/* The arguments from `first`: filter, sort, after, limit. */
static void
read_arguments(FunctionCallInfo fcinfo, struct call *call, int first)
{
    if (!PG_ARGISNULL(first))
        call->input.filter = PG_GETARG_JSONB_P(first);
    if (!PG_ARGISNULL(first + 1))
        call->input.sort = PG_GETARG_ARRAYTYPE_P(first + 1);
    if (!PG_ARGISNULL(first + 2))
        call->input.after = PG_GETARG_JSONB_P(first + 2);
    call->request.has_limit = !PG_ARGISNULL(first + 3);
    if (call->request.has_limit)
        call->request.limit = PG_GETARG_INT32(first + 3);
}

/* Returns NULL after a fault of the request. */
static struct reading *
begin_scan(struct call *call)
{
    call->scan = (struct row_scan){.rule = call->rule,
                                   .relation = call->relation,
                                   .tree = call->tree,
                                   .recipient = &call->recipient,
                                   .request = &call->request,
                                   .max_rows = call->max_rows,
                                   .max_bytes = call->max_bytes,
                                   .put = put_result,
                                   .arg = call};
    call->request.rule = call->rule;
    call->request.relation = call->relation;
    call->request.key = &call->key;
    call->request.max_rows = call->max_rows;
    return row_request_read(&call->request, &call->input) ? row_scan_begin(&call->scan) : NULL;
}

/* The rows of live_rows that are not of the table. */

static struct encode_settings
text_settings(void)
{
    return (struct encode_settings){.ascii = GetDatabaseEncoding() != PG_UTF8,
                                    .limit = PG_INT32_MAX};
}

static void
encode_column(const struct call *call, StringInfo out, AttrNumber number)
{
    const struct encode_settings settings = text_settings();
    const char *name =
        NameStr(TupleDescAttr(RelationGetDescr(call->relation), number - 1)->attname);

    encode_text(&settings, out, name, strlen(name));
}

/* The first row, which is the header for the relay. */
static void
put_header(struct call *call)
{
    StringInfoData header;
    AttrNumber compared = 0;
    const char *separator = "";

    initStringInfo(&header);
    encode_literal(&header, "{\"key\":[");
    for (int i = 0; i < call->key.count; i++) {
        if (i > 0)
            encode_literal(&header, ",");
        encode_column(call, &header, call->key.numbers[i]);
    }
    appendStringInfo(&header, "],\"snapshot\":\"%s\",\"audience\":\"%s\",\"judge\":[",
                     snapshot_text(GetActiveSnapshot()), call->rule->audience);
    while ((compared = row_request_comparable(&call->request, compared)) != 0) {
        appendStringInfoString(&header, separator);
        encode_column(call, &header, compared);
        separator = ",";
    }
    encode_literal(&header, "]");
    if (call->request.is_count)
        appendStringInfo(&header, ",\"count\":" INT64_FORMAT, call->scan.count);
    encode_literal(&header, "}");
    put_result(call, (struct fragment){header.data, header.len});
}

/* Instead of the header. An ERROR would be logged as often as a client likes. */
static void
put_fault(struct call *call)
{
    const struct encode_settings settings = text_settings();
    const char *text = call->request.fault_text;
    StringInfoData header;

    initStringInfo(&header);
    appendStringInfo(&header, "{\"error\":%d,\"text\":", call->request.fault);
    encode_text(&settings, &header, text, strlen(text));
    encode_literal(&header, "}");
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
    struct reading *reading;

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
    reading = begin_scan(call);
    if (reading == NULL)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg_internal("%s", call->request.fault_text)));
    if (recipient_may_read(&call->recipient, call->rule))
        row_scan_run(reading);
}

/* rows(relation regclass, user_id text, ..) -> setof json: see sql/rows.sql. */
Datum
clairon_rows(PG_FUNCTION_ARGS)
{
    static const char *const parameters[] = {"relation", "user_id", "name", "groups", "max_rows"};
    static const struct row_request_fields fields = {"filter", "sort", "after"};
    struct call call = {.max_bytes = PG_INT64_MAX, .request.fields = &fields};

    reject_nulls(fcinfo, parameters, lengthof(parameters));
    call.user_id = text_to_cstring(PG_GETARG_TEXT_PP(1));
    call.groups = PG_GETARG_JSONB_P(3);
    call.max_rows = PG_GETARG_INT32(4);
    reject_negative(call.max_rows, "max_rows");
    read_arguments(fcinfo, &call, lengthof(parameters));
    run_call(fcinfo, &call, run_rows);
    return (Datum)0;
}

/* Returns no header if there is no such rule, it is not live, or it does not address the user. */
static void
run_live_rows(FunctionCallInfo fcinfo, struct call *call)
{
    const char *source = text_to_cstring(PG_GETARG_TEXT_PP(0));
    const char *name = text_to_cstring(PG_GETARG_TEXT_PP(1));
    struct reading *reading;

    call->rule = source_find_rule(source, name);
    if (call->rule == NULL)
        return;
    recipient_load(&call->recipient, call->rule, call->user_id, call->groups);
    if (!recipient_may_read(&call->recipient, call->rule) || !open_relation(call))
        return;
    reading = begin_scan(call);
    if (reading == NULL) {
        put_fault(call);
        return;
    }
    if (!call->request.is_count)
        put_header(call);
    row_scan_run(reading);
    if (call->request.is_count)
        put_header(call);
    if (call->scan.is_rest)
        put_result(call, (struct fragment){"", 0});
}

/* live_rows(source text, name text, user_id text, ..) -> setof text: see sql/rows.sql. */
Datum
clairon_live_rows(PG_FUNCTION_ARGS)
{
    static const char *const parameters[] = {"source", "name",     "user_id",
                                             "groups", "max_rows", "max_bytes"};
    static const struct row_request_fields fields = {"where", "order", "after"};
    struct call call = {.request.fields = &fields};
    bool is_timed;

    reject_nulls(fcinfo, parameters, lengthof(parameters));
    call.user_id = text_to_cstring(PG_GETARG_TEXT_PP(2));
    call.groups = PG_GETARG_JSONB_P(3);
    call.max_rows = PG_GETARG_INT32(4);
    call.max_bytes = PG_GETARG_INT64(5);
    reject_negative(call.max_rows, "max_rows");
    reject_negative(call.max_bytes, "max_bytes");
    read_arguments(fcinfo, &call, lengthof(parameters));
    call.request.is_count = !PG_ARGISNULL(10) && PG_GETARG_BOOL(10);
    is_timed = overdue_begin();
    PG_TRY();
    {
        run_call(fcinfo, &call, run_live_rows);
    }
    PG_FINALLY();
    {
        if (is_timed)
            disable_timeout(timer, false);
    }
    PG_END_TRY();
    return (Datum)0;
}

/* has_order(type oid) -> boolean. The type of a dropped column does not exist. */
Datum
clairon_has_order(PG_FUNCTION_ARGS)
{
    Oid declared = PG_GETARG_OID(0);
    struct row_type type;

    PG_RETURN_BOOL(SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(declared)) &&
                   row_type_read(&type, declared));
}
