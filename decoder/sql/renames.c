/*
 * renames.c: stored conditions follow renames.
 *
 * A stored condition contains names. An event trigger parses the conditions with the old name
 * before the command, and another one deparses them after it: expressions contain OIDs, so the new
 * text has the new names. The expressions are kept between the two triggers of one command.
 */
#include "postgres.h"

#include "commands/event_trigger.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/sandbox.h"
#include "rules/condition.h"

PG_FUNCTION_INFO_V1(clairon_condition_names);
PG_FUNCTION_INFO_V1(clairon_keep_renamed);
PG_FUNCTION_INFO_V1(clairon_keep_condition);
PG_FUNCTION_INFO_V1(clairon_renamed_conditions);

/* The names in a condition. */

/* The stored form has a schema for each name outside pg_catalog. */
static void
add_qualified(List **names, const List *qualified)
{
    if (list_length(qualified) < 2 || strcmp(strVal(linitial(qualified)), "pg_catalog") == 0)
        return;
    *names = list_concat(*names, qualified);
}

/* Adds a name, quoted or not, up to a separator. Returns its end. */
static const char *
add_word(List **names, const char *at)
{
    bool is_quoted = *at == '"';
    StringInfoData name;

    initStringInfo(&name);
    for (at += is_quoted; *at != '\0' && (is_quoted || strchr(".,()[] ", *at) == NULL); at++) {
        if (is_quoted && *at == '"' && *++at != '"')
            break;
        appendStringInfoChar(&name, *at);
    }
    *names = lappend(*names, makeString(name.data));
    return at;
}

/* Adds the names in a constant of type regclass, regtype and similar: own."a table". */
static void
add_constant(List **names, const TypeCast *cast)
{
    const A_Const *constant = (const A_Const *)cast->arg;
    const List *type = cast->typeName->names; /* without a schema: of pg_catalog */

    if (!IsA(constant, A_Const) || constant->isnull || !IsA(&constant->val, String) ||
        list_length(type) != 1 || strncmp(strVal(linitial(type)), "reg", 3) != 0)
        return;
    for (const char *at = add_word(names, strVal(&constant->val)); *at != '\0';)
        at = add_word(names, at + 1);
}

/* Differs from the names of objects. */
static char *
attribute_name(const char *name)
{
    return psprintf(".%s", name);
}

static bool
add_names(Node *node, void *context)
{
    List **names = context;
    ListCell *cell;

    if (node == NULL)
        return false;
    switch (nodeTag(node)) {
    case T_TypeName:
        add_qualified(names, ((TypeName *)node)->names);
        break;
    case T_TypeCast:
        add_constant(names, (TypeCast *)node);
        break;
    case T_FuncCall:
        add_qualified(names, ((FuncCall *)node)->funcname);
        break;
    case T_A_Expr:
        add_qualified(names, ((A_Expr *)node)->name);
        break;
    case T_CollateClause:
        add_qualified(names, ((CollateClause *)node)->collname);
        break;
    case T_A_Indirection: /* of a composite value */
        foreach (cell, ((A_Indirection *)node)->indirection)
            if (IsA(lfirst(cell), String))
                *names = lappend(*names, makeString(attribute_name(strVal(lfirst(cell)))));
        break;
    default:
        break;
    }
    return raw_expression_tree_walker(node, add_names, context);
}

/*
 * condition_names(stored text) -> text[]: the names of objects outside pg_catalog, of their
 * schemas, and of attributes, with a dot. A name may occur more than once.
 */
Datum
clairon_condition_names(PG_FUNCTION_ARGS)
{
    ArrayBuildState *result = initArrayResult(TEXTOID, CurrentMemoryContext, false);
    List *names = NIL;
    ListCell *cell;

    (void)add_names(condition_parse_raw(text_to_cstring(PG_GETARG_TEXT_PP(0))), &names);
    foreach (cell, names)
        result = accumArrayResult(result, CStringGetTextDatum(strVal(lfirst(cell))), false, TEXTOID,
                                  CurrentMemoryContext);
    PG_RETURN_DATUM(makeArrayResult(result, CurrentMemoryContext));
}

/* The name that a command changes. */

static const char *
name_of_object(const Node *object)
{
    if (IsA(object, String))
        return strVal(object);
    if (IsA(object, ObjectWithArgs))
        return strVal(llast(((const ObjectWithArgs *)object)->objname));
    return IsA(object, List) ? strVal(llast((const List *)object)) : NULL;
}

/* Returns the old name, or NULL. An extension that moves to another schema has *ret_extension. */
static const char *
renamed_name(const Node *command, const char **ret_extension)
{
    *ret_extension = NULL;
    if (IsA(command, RenameStmt)) {
        const RenameStmt *rename = (const RenameStmt *)command;

        if (rename->renameType == OBJECT_COLUMN || rename->renameType == OBJECT_ATTRIBUTE)
            return attribute_name(rename->subname);
        if (rename->renameType == OBJECT_SCHEMA)
            return rename->subname;
        if (rename->subname != NULL) /* of a constraint */
            return NULL;
        return rename->relation != NULL ? rename->relation->relname
                                        : name_of_object(rename->object);
    }
    if (IsA(command, AlterEnumStmt) && ((const AlterEnumStmt *)command)->oldVal != NULL)
        return strVal(llast(((const AlterEnumStmt *)command)->typeName));
    if (IsA(command, AlterObjectSchemaStmt)) {
        const AlterObjectSchemaStmt *move = (const AlterObjectSchemaStmt *)command;

        if (move->relation != NULL)
            return move->relation->relname;
        if (move->objectType != OBJECT_EXTENSION)
            return name_of_object(move->object);
        *ret_extension = name_of_object(move->object);
    }
    return NULL;
}

/* The kept conditions. */

struct kept_condition {
    Oid relation;
    char *name;
    char *stored;
    Node *expression; /* with a Param for each column */
    char *text;       /* deparsed before the command; may differ from `stored` */
    bool is_own;      /* of a table whose owner's privileges the caller has */
};

/* Below the transaction's context. NULL: none are kept. */
static MemoryContext kept_memory;
static List *kept;

static void
forget(void *arg)
{
    kept_memory = NULL;
    kept = NIL;
}

static void
keep_none(void)
{
    if (kept_memory != NULL)
        MemoryContextDelete(kept_memory);
}

/* Returns the context of the kept conditions. */
static MemoryContext
kept_context(void)
{
    MemoryContextCallback *callback;

    if (kept_memory != NULL)
        return kept_memory;
    kept_memory = AllocSetContextCreate(TopTransactionContext, "clairon kept conditions",
                                        ALLOCSET_SMALL_SIZES);
    callback = MemoryContextAllocZero(kept_memory, sizeof(*callback));
    callback->func = forget;
    MemoryContextRegisterResetCallback(kept_memory, callback);
    return kept_memory;
}

/* The event trigger at the start of a command. */
Datum
clairon_keep_renamed(PG_FUNCTION_ARGS)
{
    Oid types[] = {TEXTOID, TEXTOID, OIDOID};
    Datum values[3];
    char nulls[3] = {' ', ' ', ' '};
    const char *extension;
    const char *name;

    if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
        ereport(
            ERROR,
            (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
             errmsg(
                 "function clairon_internal.keep_renamed() must be called by an event trigger")));
    keep_none();
    name = renamed_name(((EventTriggerData *)fcinfo->context)->parsetree, &extension);
    if (name == NULL && extension == NULL)
        PG_RETURN_NULL();
    nulls[name == NULL ? 0 : 1] = 'n';
    if (name != NULL)
        values[0] = CStringGetTextDatum(name);
    else
        values[1] = CStringGetTextDatum(extension);
    values[2] = ObjectIdGetDatum(GetOuterUserId());
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "could not connect to SPI");
    if (SPI_execute_with_args("SELECT clairon_internal.keep_conditions($1, $2, $3)",
                              lengthof(types), types, values, nulls, false, 0) != SPI_OK_SELECT)
        elog(ERROR, "could not keep the conditions of a renamed object");
    SPI_finish();
    PG_RETURN_NULL();
}

/*
 * keep_condition(relation oid, name text, stored text, origins int2[], numbers int2[],
 * is_own boolean)
 */
Datum
clairon_keep_condition(PG_FUNCTION_ARGS)
{
    Oid relation = PG_GETARG_OID(0);
    const char *stored = text_to_cstring(PG_GETARG_TEXT_PP(2));
    Node *expression =
        condition_numbered(relation, stored, PG_GETARG_ARRAYTYPE_P(3), PG_GETARG_ARRAYTYPE_P(4));
    char *written = condition_text(relation, expression);
    MemoryContext old = MemoryContextSwitchTo(kept_context());
    struct kept_condition *condition = palloc(sizeof(*condition));

    condition->relation = relation;
    condition->name = text_to_cstring(PG_GETARG_TEXT_PP(1));
    condition->stored = pstrdup(stored);
    condition->expression = copyObject(expression);
    condition->text = pstrdup(written);
    condition->is_own = PG_GETARG_BOOL(5);
    kept = lappend(kept, condition);
    MemoryContextSwitchTo(old);
    PG_RETURN_VOID();
}

struct text_arguments {
    const struct kept_condition *condition;
    char *text;
};

static void
write_text(void *arg)
{
    struct text_arguments *arguments = arg;

    arguments->text =
        condition_text(arguments->condition->relation, arguments->condition->expression);
}

/*
 * renamed_conditions() -> table(relation, name, stored, renamed, is_own): the kept conditions that
 * have other names now.
 */
Datum
clairon_renamed_conditions(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
    ListCell *cell;

    InitMaterializedSRF(fcinfo, 0);
    foreach (cell, kept) {
        const struct kept_condition *condition = lfirst(cell);
        struct text_arguments arguments = {condition, NULL};
        Datum values[5];
        bool nulls[5] = {false};
        char *reason;

        if (!guard_run(write_text, &arguments, &reason)) {
            ereport(WARNING, (errmsg("could not update only_when of rule \"%s\": %s",
                                     condition->name, reason)));
            continue;
        }
        if (strcmp(arguments.text, condition->text) == 0)
            continue;
        values[0] = ObjectIdGetDatum(condition->relation);
        values[1] = CStringGetTextDatum(condition->name);
        values[2] = CStringGetTextDatum(condition->stored);
        values[3] = CStringGetTextDatum(arguments.text);
        values[4] = BoolGetDatum(condition->is_own);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    keep_none();
    return (Datum)0;
}
