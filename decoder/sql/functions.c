/* functions.c: the C functions behind the extension's SQL. */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "pgstat.h"
#include "replication/slot.h"
#include "storage/fd.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/deparse_utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/account.h"
#include "encode/encode.h"
#include "protocol/version.h"
#include "rules/rules.h"

#define REPORT_LINE_MAX 100

PG_FUNCTION_INFO_V1(clairon_version);
PG_FUNCTION_INFO_V1(clairon_rule_written);
PG_FUNCTION_INFO_V1(clairon_lock_rules);
PG_FUNCTION_INFO_V1(clairon_try_lock_rules);
PG_FUNCTION_INFO_V1(clairon_uuid_v7);
PG_FUNCTION_INFO_V1(clairon_utf8);
PG_FUNCTION_INFO_V1(clairon_utf8_length);
PG_FUNCTION_INFO_V1(clairon_split_parts);
PG_FUNCTION_INFO_V1(clairon_denial_report);
PG_FUNCTION_INFO_V1(clairon_report_denials);

/* Returns the version of the loaded library, to compare with the version of the extension. */
Datum
clairon_version(PG_FUNCTION_ARGS)
{
    PG_RETURN_TEXT_P(cstring_to_text(CLAIRON_VERSION));
}

static void
put_file(StringInfo out, const char *path)
{
    char text[ACCOUNT_REPORT_BYTES_MAX];
    FILE *file = AllocateFile(path, "r");

    if (file == NULL)
        return;
    appendBinaryStringInfo(out, text, fread(text, 1, sizeof(text), file));
    FreeFile(file);
}

/*
 * denial_report(slot name) -> text: the reports of the slot, or NULL if nothing was denied.
 */
Datum
clairon_denial_report(PG_FUNCTION_ARGS)
{
    const char *slot = NameStr(*PG_GETARG_NAME(0));
    char path[MAXPGPATH];
    StringInfoData text;

    if (strchr(slot, '/') != NULL)
        PG_RETURN_NULL();
    initStringInfo(&text);
    snprintf(path, sizeof(path), ACCOUNT_REPORT_PATH, slot);
    put_file(&text, path);
    for (int i = 0; i < ACCOUNT_STORE_KINDS; i++) {
        snprintf(path, sizeof(path), ACCOUNT_STORE_REPORT_PATH, slot, account_store_kinds[i]);
        put_file(&text, path);
    }
    if (text.len == 0)
        PG_RETURN_NULL();
    PG_RETURN_TEXT_P(cstring_to_text_with_len(text.data, text.len));
}

/* Returns an account of the store by its name. */
static const char *
store_kind_of(const char *name)
{
    for (int i = 0; i < ACCOUNT_STORE_KINDS; i++)
        if (strcmp(account_store_kinds[i], name) == 0)
            return account_store_kinds[i];
    ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
            errmsg("invalid account \"%s\", must be pairs or errors", name));
}

/* Returns NULL for a role that no longer exists. Owners without limits share an account. */
static char *
owner_name(Oid owner)
{
    return OidIsValid(owner) ? GetUserNameFromId(owner, true) : "clairon_app";
}

/*
 * report_denials(slot name, account text, owners oid[], changes bigint[], last_us bigint[]) ->
 * text: replaces the relay's report about an account of its store. The times are in us since 1970.
 * Returns the names of the owners.
 */
Datum
clairon_report_denials(PG_FUNCTION_ARGS)
{
    const char *slot = NameStr(*PG_GETARG_NAME(0));
    const char *kind = store_kind_of(text_to_cstring(PG_GETARG_TEXT_PP(1)));
    char path[MAXPGPATH];
    StringInfoData text;
    StringInfoData names;
    Datum *values[3];
    int counts[3];

    if (SearchNamedReplicationSlot(slot, true) == NULL)
        ereport(ERROR, errcode(ERRCODE_UNDEFINED_OBJECT),
                errmsg("replication slot \"%s\" does not exist", slot));
    for (int i = 0; i < 3; i++)
        deconstruct_array(PG_GETARG_ARRAYTYPE_P(2 + i), i == 0 ? OIDOID : INT8OID,
                          i == 0 ? sizeof(Oid) : sizeof(int64), i == 0 || FLOAT8PASSBYVAL,
                          i == 0 ? TYPALIGN_INT : TYPALIGN_DOUBLE, &values[i], NULL, &counts[i]);
    if (counts[1] != counts[0] || counts[2] != counts[0])
        ereport(ERROR, errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                errmsg("the arrays must have the same length"));
    initStringInfo(&text);
    initStringInfo(&names);
    for (int i = 0; i < counts[0] && text.len < ACCOUNT_REPORT_BYTES_MAX - REPORT_LINE_MAX; i++) {
        Oid owner = DatumGetObjectId(values[0][i]);
        char *name = owner_name(owner);

        appendStringInfo(&text, ACCOUNT_REPORT_LINE "\n", owner, kind,
                         (unsigned long long)DatumGetInt64(values[1][i]),
                         (long long)(DatumGetInt64(values[2][i]) - POSTGRES_EPOCH_US));
        appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", name == NULL ? "?" : name);
    }
    snprintf(path, sizeof(path), ACCOUNT_STORE_REPORT_PATH, slot, kind);
    account_write_report(path, text.data);
    PG_RETURN_TEXT_P(cstring_to_text_with_len(names.data, names.len));
}

static void
invalidate(HeapTuple tuple, TupleDesc desc)
{
    bool is_null;
    Datum relid = heap_getattr(tuple, RULE_RELATION, desc, &is_null);
    HeapTuple class;

    if (is_null)
        return;
    class = SearchSysCache1(RELOID, relid);
    /* A rule may exist slightly longer than its table. */
    if (!HeapTupleIsValid(class))
        return;
    CacheInvalidateRelcacheByTuple(class);
    ReleaseSysCache(class);
}

/*
 * Invalidates the relation of the rule, so that decoders drop its plans: rows of a user catalog
 * table send no invalidations themselves.
 */
Datum
clairon_rule_written(PG_FUNCTION_ARGS)
{
    TriggerData *trigger = (TriggerData *)fcinfo->context;
    TupleDesc desc;

    if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event) ||
        !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function clairon_internal.rule_written() must be called by a "
                               "row-level AFTER trigger")));
    desc = RelationGetDescr(trigger->tg_relation);
    invalidate(trigger->tg_trigtuple, desc);
    if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
        invalidate(trigger->tg_newtuple, desc);
    return PointerGetDatum(NULL);
}

/*
 * lock_rules(relation oid): prevents DROP TABLE and concurrent rule changes, since user catalog
 * tables do not support ON CONFLICT. The lock tag differs from the table's lock tag, so no other
 * command waits for it.
 */
Datum
clairon_lock_rules(PG_FUNCTION_ARGS)
{
    Oid relid = PG_GETARG_OID(0);

    LockRelationOid(relid, AccessShareLock);
    LockDatabaseObject(RelationRelationId, relid, 0, ExclusiveLock);
    PG_RETURN_VOID();
}

/* try_lock_rules(relation oid) -> boolean: like lock_rules, but returns false rather than wait. */
Datum
clairon_try_lock_rules(PG_FUNCTION_ARGS)
{
    Oid relid = PG_GETARG_OID(0);
    LOCKTAG tag;

    SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, relid, 0);
    if (!ConditionalLockRelationOid(relid, AccessShareLock) ||
        LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
        PG_RETURN_BOOL(false);
    AcceptInvalidationMessages();
    PG_RETURN_BOOL(SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)));
}

/* utf8(text) -> bytea: the text in UTF-8 as in frames, from any server encoding. */
Datum
clairon_utf8(PG_FUNCTION_ARGS)
{
    text *plain = PG_GETARG_TEXT_PP(0);
    int len;
    char *utf8 = encode_to_utf8(VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain), &len);

    PG_RETURN_BYTEA_P(cstring_to_text_with_len(utf8, len));
}

/* utf8_length(text) -> integer: the length of the text in a frame, from any server encoding. */
Datum
clairon_utf8_length(PG_FUNCTION_ARGS)
{
    text *plain = PG_GETARG_TEXT_PP(0);
    int len;

    (void)encode_to_utf8(VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain), &len);
    PG_RETURN_INT32(len);
}

/*
 * split_parts(text) -> text[]: splits a composite target at each + except \+; \\ is a backslash. No
 * server encoding uses these bytes in other characters.
 */
Datum
clairon_split_parts(PG_FUNCTION_ARGS)
{
    text *given = PG_GETARG_TEXT_PP(0);
    const char *at = VARDATA_ANY(given);
    const char *end = at + VARSIZE_ANY_EXHDR(given);
    ArrayBuildState *parts = NULL;
    StringInfoData part;

    initStringInfo(&part);
    for (; at < end; at++) {
        if (*at == '\\' && at + 1 < end && (at[1] == '+' || at[1] == '\\')) {
            appendStringInfoChar(&part, *++at);
        } else if (*at == '+') {
            parts = accumArrayResult(parts,
                                     PointerGetDatum(cstring_to_text_with_len(part.data, part.len)),
                                     false, TEXTOID, CurrentMemoryContext);
            resetStringInfo(&part);
        } else {
            appendStringInfoChar(&part, *at);
        }
    }
    parts = accumArrayResult(parts, PointerGetDatum(cstring_to_text_with_len(part.data, part.len)),
                             false, TEXTOID, CurrentMemoryContext);
    PG_RETURN_DATUM(makeArrayResult(parts, CurrentMemoryContext));
}

/* RFC 9562 version 7: 48 bits of time in ms, then random bits. */
Datum
clairon_uuid_v7(PG_FUNCTION_ARGS)
{
    pg_uuid_t *id = palloc(sizeof(*id));
    uint64 ms = (GetCurrentTimestamp() + POSTGRES_EPOCH_US) / 1000;

    if (!pg_strong_random(id->data, UUID_LEN))
        ereport(ERROR,
                (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
    for (int i = 0; i < 6; i++)
        id->data[i] = ms >> (40 - 8 * i);
    id->data[6] = (id->data[6] & 0x0F) | 0x70;
    id->data[8] = (id->data[8] & 0x3F) | 0x80;
    PG_RETURN_UUID_P(id);
}

/*
 * The public functions.
 *
 * Each checks the caller, then calls an internal function as the extension's owner.
 */

PG_FUNCTION_INFO_V1(clairon_watch);
PG_FUNCTION_INFO_V1(clairon_unwatch);
PG_FUNCTION_INFO_V1(clairon_show_condition);
PG_FUNCTION_INFO_V1(clairon_notify);
PG_FUNCTION_INFO_V1(clairon_once);
PG_FUNCTION_INFO_V1(clairon_prune);
PG_FUNCTION_INFO_V1(clairon_prune_receipts);
PG_FUNCTION_INFO_V1(clairon_forget);
PG_FUNCTION_INFO_V1(clairon_changes_owner);
PG_FUNCTION_INFO_V1(clairon_added_table);
PG_FUNCTION_INFO_V1(clairon_advise_added);

/* Arguments of watch, in the order of its parameters. */
enum watch_argument {
    WATCH_RELATION,
    WATCH_AUDIENCE,
    WATCH_TARGETS,
    WATCH_NAME,
    WATCH_TYPE,
    WATCH_PRIORITY,
    WATCH_OPERATIONS,
    WATCH_COLUMNS,
    WATCH_ONLY_WHEN,
    WATCH_EMITTER,
    WATCH_TOPIC,
    WATCH_TTL,
    WATCH_ACK_REQUIRED,
    WATCH_RETRY_LIMIT,
    WATCH_BACKOFF,
    WATCH_ACK_TIMEOUT,
    WATCH_LIVE,
    WATCH_RECEIPTS,
    WATCH_ESCALATE_AFTER,
    WATCH_WEB_PUSH,
    WATCH_FILTER_COLUMNS
};

static Oid
owner_of_function(Oid function)
{
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    Oid owner;

    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for function %u", function);
    owner = ((Form_pg_proc)GETSTRUCT(tuple))->proowner;
    ReleaseSysCache(tuple);
    return owner;
}

static bool
owns(Oid relation)
{
#if PG_VERSION_NUM >= 160000
    return object_ownercheck(RelationRelationId, relation, GetUserId());
#else
    return pg_class_ownercheck(relation, GetUserId());
#endif
}

static const char *
relation_text(Oid relation)
{
    return DatumGetCString(DirectFunctionCall1(regclassout, ObjectIdGetDatum(relation)));
}

/*
 * Checks the current user, as PostgreSQL does: in a SECURITY DEFINER function or an index
 * expression, that is its owner. SQL cannot check it: inside a function that runs as the owner of
 * the rules, the caller is unknown.
 */
static void
check_owner(Oid relation)
{
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation)))
        return; /* the inner function raises the error */
    if (!owns(relation))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("must be owner of relation %s", relation_text(relation))));
}

static bool
argument_is(FunctionCallInfo fcinfo, enum watch_argument argument, const char *word)
{
    return !PG_ARGISNULL(argument) &&
           strcmp(text_to_cstring(PG_GETARG_TEXT_PP(argument)), word) == 0;
}

static bool
is_literal_list(FunctionCallInfo fcinfo)
{
    const char *targets;

    if (PG_ARGISNULL(WATCH_TARGETS))
        return false;
    /* Blanks around the parts of composite targets are ignored. */
    targets = text_to_cstring(PG_GETARG_TEXT_PP(WATCH_TARGETS));
    return targets[strspn(targets, " \t\n\r")] == '=';
}

/*
 * Returns the parameter that requires clairon_app, or NULL. A rule of any other table owner only
 * sends rows of the table, under the table's name, to the users in the rows. Members of clairon_app
 * can also reach other users, set emitter and topic, and let a rule overtake other notifications.
 * ack_required, ack_timeout, retry_limit, backoff and ttl are allowed for all owners, within the
 * limits of check_owner_delivery: they affect only the rule's own notifications, and types other
 * than REALTIME would be of little use without them.
 */
static const char *
privileged_parameter(FunctionCallInfo fcinfo)
{
    if (argument_is(fcinfo, WATCH_AUDIENCE, "ALL"))
        return "audience ALL";
    if (is_literal_list(fcinfo))
        return "a list of targets";
    if (argument_is(fcinfo, WATCH_TYPE, "SYSTEM"))
        return "type SYSTEM";
    if (argument_is(fcinfo, WATCH_PRIORITY, "HIGH"))
        return "priority HIGH";
    if (!PG_ARGISNULL(WATCH_EMITTER) && !argument_is(fcinfo, WATCH_EMITTER, "clairon"))
        return "emitter";
    if (!PG_ARGISNULL(WATCH_TOPIC))
        return "topic";
    if (!PG_ARGISNULL(WATCH_RECEIPTS) && !argument_is(fcinfo, WATCH_RECEIPTS, "none"))
        return "receipts";
    if (!PG_ARGISNULL(WATCH_ESCALATE_AFTER))
        return "escalate_after";
    if (!PG_ARGISNULL(WATCH_WEB_PUSH))
        return "web_push";
    return NULL;
}

static void
check_privileged(FunctionCallInfo fcinfo)
{
    const char *parameter = privileged_parameter(fcinfo);

    if (parameter == NULL)
        return;
    ereport(ERROR,
            (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
             errmsg("must be a member of clairon_app to set %s", parameter),
             errdetail(
                 "Table owners without this membership can set rules with targets from a column, "
                 "the default emitter and topic, type REALTIME or NOTIFICATION, priority NORMAL or "
                 "LOW, and without receipts, escalations and Web Pushes."),
             errhint("To allow it, run GRANT clairon_app TO %s.",
                     quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

/* Looked up once per query. */
static FmgrInfo *
inner_function(FunctionCallInfo outer, const char *name)
{
    FmgrInfo *info = outer->flinfo->fn_extra;
    Oid function;

    if (info != NULL)
        return info;
    function = LookupFuncName(list_make2(makeString("clairon_internal"), makeString(pstrdup(name))),
                              -1, NULL, false);
    info = MemoryContextAlloc(outer->flinfo->fn_mcxt, sizeof(*info));
    fmgr_info_cxt(function, info, outer->flinfo->fn_mcxt);
    outer->flinfo->fn_extra = info;
    return info;
}

/* Re-throws the error with the context of the caller instead of the PL/pgSQL context. */
static _Noreturn void
rethrow(MemoryContext context)
{
    ErrorData *error;

    MemoryContextSwitchTo(context);
    error = CopyErrorData();
    FlushErrorState();
    error->context = NULL;
    ThrowErrorData(error);
    pg_unreachable();
}

/* Calls an internal function of the schema as its owner. */
static Datum
call_inner(FunctionCallInfo inner, FunctionCallInfo outer, const char *name)
{
    MemoryContext memory = CurrentMemoryContext;
    int level = NewGUCNestLevel();
    Oid user;
    int context;
    Datum result = 0;

    inner->flinfo = inner_function(outer, name);
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(owner_of_function(inner->flinfo->fn_oid),
                           context | SECURITY_LOCAL_USERID_CHANGE);
    PG_TRY();
    {
        error_context_stack = NULL;
        result = FunctionCallInvoke(inner);
    }
    PG_CATCH();
    {
        rethrow(memory);
    }
    PG_END_TRY();
    AtEOXact_GUC(false, level);
    SetUserIdAndSecContext(user, context);
    outer->isnull = inner->isnull;
    return result;
}

/* Like call_inner, with the arguments of `outer`. */
static Datum
call_with_arguments(FunctionCallInfo fcinfo, const char *name)
{
    LOCAL_FCINFO(inner, FUNC_MAX_ARGS);

    InitFunctionCallInfoData(*inner, NULL, PG_NARGS(), PG_GET_COLLATION(), NULL, NULL);
    memcpy(inner->args, fcinfo->args, sizeof(NullableDatum) * PG_NARGS());
    return call_inner(inner, fcinfo, name);
}

/*
 * watch(relation regclass, ...): see sql/rules.sql. set_rule also receives the caller's
 * search_path, and whether the limits of a caller outside clairon_app apply.
 */
Datum
clairon_watch(PG_FUNCTION_ARGS)
{
    LOCAL_FCINFO(inner, FUNC_MAX_ARGS);
    bool is_limited = !account_is_app_member(GetUserId());

    PreventCommandDuringRecovery("clairon.watch()");
    if (!PG_ARGISNULL(WATCH_RELATION))
        check_owner(PG_GETARG_OID(WATCH_RELATION));
    if (is_limited)
        check_privileged(fcinfo);
    InitFunctionCallInfoData(*inner, NULL, PG_NARGS() + 2, PG_GET_COLLATION(), NULL, NULL);
    inner->args[0].value = CStringGetTextDatum(GetConfigOption("search_path", false, false));
    inner->args[0].isnull = false;
    inner->args[1].value = BoolGetDatum(is_limited);
    inner->args[1].isnull = false;
    for (int i = 0; i < PG_NARGS(); i++)
        inner->args[i + 2] = fcinfo->args[i];
    (void)call_inner(inner, fcinfo, "set_rule");
    if (!XLogLogicalInfoActive())
        ereport(WARNING,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("wal_level is insufficient for logical decoding"),
                 errdetail(
                     "The rule is set, but changes made before wal_level is logical are not sent."),
                 errhint("Set wal_level = logical in postgresql.conf and restart the server.")));
    PG_RETURN_VOID();
}

/* unwatch(relation regclass, name text) -> integer */
Datum
clairon_unwatch(PG_FUNCTION_ARGS)
{
    PreventCommandDuringRecovery("clairon.unwatch()");
    if (!PG_ARGISNULL(0))
        check_owner(PG_GETARG_OID(0));
    return call_with_arguments(fcinfo, "remove_rules");
}

/* show_condition(relation regclass, name text) -> text: only_when in the view clairon.rules. */
Datum
clairon_show_condition(PG_FUNCTION_ARGS)
{
    Oid relation = PG_GETARG_OID(0);
    Oid rules = get_relname_relid("rule", get_namespace_oid("clairon", false));
    bool is_reader = pg_class_aclcheck(rules, GetUserId(), ACL_SELECT) == ACLCHECK_OK;

    if (!is_reader &&
        !(SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation)) && owns(relation)))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("must be owner of relation %s", relation_text(relation))));
    return call_with_arguments(fcinfo, "condition_text");
}

/* notify, once, prune: see sql/notify.sql. */
Datum
clairon_notify(PG_FUNCTION_ARGS)
{
    return call_with_arguments(fcinfo, "send_message");
}

Datum
clairon_once(PG_FUNCTION_ARGS)
{
    return call_with_arguments(fcinfo, "insert_key");
}

Datum
clairon_prune(PG_FUNCTION_ARGS)
{
    return call_with_arguments(fcinfo, "delete_keys");
}

/* prune_receipts: see sql/receipts.sql. */
Datum
clairon_prune_receipts(PG_FUNCTION_ARGS)
{
    return call_with_arguments(fcinfo, "delete_receipts");
}

Datum
clairon_forget(PG_FUNCTION_ARGS)
{
    return call_with_arguments(fcinfo, "forget_user");
}

/* changes_owner(command pg_ddl_command) -> boolean: true for ALTER TABLE .. OWNER TO. */
Datum
clairon_changes_owner(PG_FUNCTION_ARGS)
{
    CollectedCommand *command = (CollectedCommand *)PG_GETARG_POINTER(0);
    ListCell *cell;

    if (command->type != SCT_AlterTable)
        PG_RETURN_BOOL(false);
    foreach (cell, command->d.alterTable.subcmds) {
        CollectedATSubcmd *sub = lfirst(cell);

        if (IsA(sub->parsetree, AlterTableCmd) &&
            ((AlterTableCmd *)sub->parsetree)->subtype == AT_ChangeOwner)
            PG_RETURN_BOOL(true);
    }
    PG_RETURN_BOOL(false);
}

/*
 * added_table(command pg_ddl_command) -> oid: the table that CREATE TABLE creates, or that ALTER
 * TABLE attaches to another table; NULL for other commands.
 */
Datum
clairon_added_table(PG_FUNCTION_ARGS)
{
    CollectedCommand *command = (CollectedCommand *)PG_GETARG_POINTER(0);
    ListCell *cell;

    if (command->type == SCT_Simple && IsA(command->parsetree, CreateStmt))
        PG_RETURN_OID(command->d.simple.address.objectId);
    if (command->type != SCT_AlterTable)
        PG_RETURN_NULL();
    foreach (cell, command->d.alterTable.subcmds) {
        CollectedATSubcmd *sub = lfirst(cell);

        if (!IsA(sub->parsetree, AlterTableCmd))
            continue;
        if (((AlterTableCmd *)sub->parsetree)->subtype == AT_AttachPartition)
            PG_RETURN_OID(sub->address.objectId);
        if (((AlterTableCmd *)sub->parsetree)->subtype == AT_AddInherit)
            PG_RETURN_OID(command->d.alterTable.objectId);
    }
    PG_RETURN_NULL();
}

static bool
adds_table(const Node *command)
{
    ListCell *cell;

    if (IsA(command, CreateStmt))
        return ((const CreateStmt *)command)->inhRelations != NIL;
    if (!IsA(command, AlterTableStmt))
        return false;
    foreach (cell, ((const AlterTableStmt *)command)->cmds) {
        AlterTableType type = ((const AlterTableCmd *)lfirst(cell))->subtype;

        if (type == AT_AttachPartition || type == AT_AddInherit)
            return true;
    }
    return false;
}

/* The event trigger after CREATE TABLE and ALTER TABLE. Other commands do not wait for SQL. */
Datum
clairon_advise_added(PG_FUNCTION_ARGS)
{
    if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
        ereport(
            ERROR,
            (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
             errmsg(
                 "function clairon_internal.advise_added() must be called by an event trigger")));
    if (!adds_table(((EventTriggerData *)fcinfo->context)->parsetree))
        PG_RETURN_NULL();
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "could not connect to SPI");
    if (SPI_execute("SELECT clairon_internal.advise_added_tables()", false, 0) != SPI_OK_SELECT)
        elog(ERROR, "could not check the added tables");
    SPI_finish();
    PG_RETURN_NULL();
}
