/* sql_watch.c: watch and unwatch: for who may, as who owns the rules. */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(clairon_watch);
PG_FUNCTION_INFO_V1(clairon_unwatch);

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

/*
 * Whoever is in force counts, as everywhere in PostgreSQL: within a SECURITY DEFINER function its
 * owner, within an index expression the table's. SQL could not tell that: within a function
 * that owns the rules, the caller is gone.
 */
static void
check_owner(Oid relation)
{
    bool owns;

    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation)))
        return; /* the inner function says so */
#if PG_VERSION_NUM >= 160000
    owns = object_ownercheck(RelationRelationId, relation, GetUserId());
#else
    owns = pg_class_ownercheck(relation, GetUserId());
#endif
    if (!owns)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("relation: must be owner of %s",
                               DatumGetCString(
                                   DirectFunctionCall1(regclassout, ObjectIdGetDatum(relation))))));
}

/* Calls a function of the schema that nobody else may call, as its owner. */
static Datum
call_inner(FunctionCallInfo inner, const char *name, bool *ret_is_null)
{
    Oid function = LookupFuncName(list_make2(makeString("clairon"), makeString(pstrdup(name))), -1,
                                  NULL, false);
    FmgrInfo info;
    Oid user;
    int context;
    Datum result;

    fmgr_info(function, &info);
    inner->flinfo = &info;
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(owner_of_function(function), context | SECURITY_LOCAL_USERID_CHANGE);
    result = FunctionCallInvoke(inner);
    SetUserIdAndSecContext(user, context);
    *ret_is_null = inner->isnull;
    return result;
}

/* watch(relation regclass, ...): see sql/rules.sql. set_rule gets the caller's search_path. */
Datum
clairon_watch(PG_FUNCTION_ARGS)
{
    LOCAL_FCINFO(inner, FUNC_MAX_ARGS);
    bool is_null;

    PreventCommandDuringRecovery("clairon.watch()");
    if (!PG_ARGISNULL(0))
        check_owner(PG_GETARG_OID(0));
    InitFunctionCallInfoData(*inner, NULL, PG_NARGS() + 1, PG_GET_COLLATION(), NULL, NULL);
    inner->args[0].value = CStringGetTextDatum(GetConfigOption("search_path", false, false));
    inner->args[0].isnull = false;
    for (int i = 0; i < PG_NARGS(); i++)
        inner->args[i + 1] = fcinfo->args[i];
    (void)call_inner(inner, "set_rule", &is_null);
    if (!XLogLogicalInfoActive())
        ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                          errmsg("wal_level is insufficient: the rule is set, and sends nothing of "
                                 "what is changed until it is logical"),
                          errhint("Set wal_level = logical in postgresql.conf and restart the "
                                  "server.")));
    PG_RETURN_VOID();
}

/* unwatch(relation regclass, name text) -> integer */
Datum
clairon_unwatch(PG_FUNCTION_ARGS)
{
    LOCAL_FCINFO(inner, 2);
    Datum removed;

    PreventCommandDuringRecovery("clairon.unwatch()");
    if (!PG_ARGISNULL(0))
        check_owner(PG_GETARG_OID(0));
    InitFunctionCallInfoData(*inner, NULL, 2, PG_GET_COLLATION(), NULL, NULL);
    inner->args[0] = fcinfo->args[0];
    inner->args[1] = fcinfo->args[1];
    removed = call_inner(inner, "remove_rules", &fcinfo->isnull);
    return removed;
}
