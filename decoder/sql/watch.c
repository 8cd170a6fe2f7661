/*
 * watch.c: the public functions.
 *
 * Each checks the caller, then calls an internal function as the extension's owner.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "tcop/deparse_utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(clairon_watch);
PG_FUNCTION_INFO_V1(clairon_unwatch);
PG_FUNCTION_INFO_V1(clairon_show_condition);
PG_FUNCTION_INFO_V1(clairon_notify);
PG_FUNCTION_INFO_V1(clairon_once);
PG_FUNCTION_INFO_V1(clairon_prune);
PG_FUNCTION_INFO_V1(clairon_changes_owner);

/* Arguments of watch. */
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
    WATCH_TOPIC
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
    return NULL;
}

static bool
is_app_member(void)
{
    Oid app = get_role_oid("clairon_app", true);

    return OidIsValid(app) ? has_privs_of_role(GetUserId(), app) : superuser();
}

static void
check_privileged(FunctionCallInfo fcinfo)
{
    const char *parameter = privileged_parameter(fcinfo);

    if (parameter == NULL)
        return;
    ereport(
        ERROR,
        (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
         errmsg("must be a member of clairon_app to set %s", parameter),
         errdetail("Table owners without this membership can set rules with targets from a column, "
                   "the default emitter and topic, type REALTIME or NOTIFICATION, and priority "
                   "NORMAL or LOW."),
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
    function = LookupFuncName(list_make2(makeString("clairon"), makeString(pstrdup(name))), -1,
                              NULL, false);
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
    bool is_limited = !is_app_member();

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
