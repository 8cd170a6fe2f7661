/*
 * condition_parse.c: convert the text of only_when to the stored form, and parse that form. Reject
 * both if they could run SQL or volatile code, or have no bound.
 */
#include "rules/condition.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "encode/encode.h"

/*
 * Functions of other languages run SQL, for which decoding has no snapshot: such a call could crash
 * the server.
 */
static bool
is_foreign_language(Oid function, void *context)
{
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    Oid language;

    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for function %u", function);
    language = ((Form_pg_proc)GETSTRUCT(tuple))->prolang;
    ReleaseSysCache(tuple);
    return language != INTERNALlanguageId && language != ClanguageId;
}

static bool
calls_foreign_language(Node *node, void *context)
{
    if (node == NULL)
        return false;
    return check_functions_in_node(node, is_foreign_language, context) ||
           expression_tree_walker(node, calls_foreign_language, context);
}

/*
 * libxml does not check for interrupts, and its cost does not depend on the size of its input
 * alone.
 */
static bool
parses_xml(Oid function)
{
    switch (function) {
    case F_XMLEXISTS:
    case F_XMLVALIDATE:
    case F_XML_IN:
    case F_XML_RECV:
    case F_XML:
    case F_XPATH_TEXT_XML:
    case F_XPATH_TEXT_XML__TEXT:
    case F_XPATH_EXISTS_TEXT_XML:
    case F_XPATH_EXISTS_TEXT_XML__TEXT:
    case F_XML_IS_WELL_FORMED:
    case F_XML_IS_WELL_FORMED_DOCUMENT:
    case F_XML_IS_WELL_FORMED_CONTENT:
        return true;
    default:
        return false;
    }
}

static _Noreturn void
reject_xml(void)
{
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("parsing XML is not allowed"),
                    errdetail("The time and memory of XML parsing cannot be limited.")));
}

/*
 * True if values of the type may contain a domain value: its input evaluates the constraints of the
 * domain, which may call any function.
 */
static bool
may_contain_domain(Oid type)
{
    Oid element = get_element_type(type);

    if (OidIsValid(element))
        return may_contain_domain(element);
    switch (get_typtype(type)) {
    case TYPTYPE_BASE:
    case TYPTYPE_ENUM:
        return false;
    case TYPTYPE_RANGE:
        return may_contain_domain(get_range_subtype(type));
    case TYPTYPE_MULTIRANGE:
        return may_contain_domain(get_multirange_range(type));
    default:
        return true;
    }
}

/* True for functions that compare each pair of lexemes in each pair of positions. */
static bool
ranks_text(Oid function)
{
    switch (function) {
    case F_TS_RANK_TSVECTOR_TSQUERY:
    case F_TS_RANK_TSVECTOR_TSQUERY_INT4:
    case F_TS_RANK__FLOAT4_TSVECTOR_TSQUERY:
    case F_TS_RANK__FLOAT4_TSVECTOR_TSQUERY_INT4:
    case F_TS_RANK_CD_TSVECTOR_TSQUERY:
    case F_TS_RANK_CD_TSVECTOR_TSQUERY_INT4:
    case F_TS_RANK_CD__FLOAT4_TSVECTOR_TSQUERY:
    case F_TS_RANK_CD__FLOAT4_TSVECTOR_TSQUERY_INT4:
        return true;
    default:
        return false;
    }
}

/* Checks run as the table's owner. Members of clairon_app may use all installed extensions. */
static bool
owner_is_trusted(void)
{
    Oid role = get_role_oid("clairon_app", true);

    return OidIsValid(role) && has_privs_of_role(GetUserId(), role);
}

/* A polymorphic function can create a value of a domain: hstore's `#=` calls its input function. */
static bool
may_return_domain(Form_pg_proc function)
{
    if (function->prorettype != CSTRINGOID && may_contain_domain(function->prorettype))
        return true;
    for (int i = 0; i < function->pronargs; i++)
        if (IsPolymorphicType(function->proargtypes.values[i]))
            return true;
    return false;
}

/*
 * The behavior and the run time of an extension's C function are unknown: xml2, for example,
 * evaluates XPath without checking for interrupts.
 */
static void
check_extension_function(Oid function)
{
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    bool returns_domain;

    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for function %u", function);
    returns_domain = may_return_domain((Form_pg_proc)GETSTRUCT(tuple));
    ReleaseSysCache(tuple);
    if (returns_domain)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("function %s is not allowed", format_procedure(function)),
                        errdetail("The function may return a value of a domain.")));
    if (!owner_is_trusted())
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("function %s is not allowed", format_procedure(function)),
                        errdetail("Functions of extensions require a table owner with membership "
                                  "in \"clairon_app\".")));
}

static bool
reject_function(Oid function, void *context)
{
    if (parses_xml(function))
        reject_xml();
    if (is_foreign_language(function, context))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("function %s is not allowed", format_procedure(function)),
                 errdetail("The function is neither a C function nor an inlinable SQL function.")));
    if (ranks_text(function))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("function %s is not allowed", format_procedure(function)),
                        errdetail("The execution time of the function cannot be limited.")));
    if (function >= FirstNormalObjectId)
        check_extension_function(function);
    return false;
}

static void
reject_constant_of(Oid type)
{
    if (getBaseType(type) == XMLOID)
        reject_xml();
    if (may_contain_domain(getBaseType(type)))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("value of type %s is not allowed", format_type_be(type)),
                        errdetail("The type may contain values of a domain.")));
}

/* True for a node that calls an input function when it is evaluated or parsed. */
static bool
reads_text(const Node *node)
{
    switch (nodeTag(node)) {
    case T_Const:
    case T_CoerceViaIO:
#if PG_VERSION_NUM >= 160000
    case T_JsonConstructorExpr:
#endif
#if PG_VERSION_NUM >= 170000
    case T_JsonExpr:
#endif
        return true;
    default:
        return false;
    }
}

/* A dictionary is loaded once and stays in memory until the session ends. */
static bool
is_text_search(Node *node)
{
    Oid type;

    if (IsA(node, List))
        return false;
    type = exprType(node);
    if (type != REGCONFIGOID && type != REGDICTIONARYOID)
        return false;
    return !IsA(node, Const) ||
           (!((Const *)node)->constisnull &&
            DatumGetObjectId(((Const *)node)->constvalue) >= FirstNormalObjectId);
}

static bool
check_node(Node *node, void *context)
{
    if (node == NULL)
        return false;
    if (IsA(node, XmlExpr))
        reject_xml();
    if (IsA(node, CoerceToDomain) && DomainHasConstraints(((CoerceToDomain *)node)->resulttype))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cast to domain %s is not allowed",
                               format_type_be(((CoerceToDomain *)node)->resulttype)),
                        errdetail("The domain has constraints.")));
    if (reads_text(node) && may_contain_domain(exprType(node)))
        reject_constant_of(exprType(node));
    if (is_text_search(node))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("text search configurations and dictionaries outside schema "
                               "\"pg_catalog\" are not allowed"),
                        errdetail("A loaded dictionary stays in memory until the session ends.")));
    (void)check_functions_in_node(node, reject_function, context);
    return expression_tree_walker(node, check_node, context);
}

/* Raises an error unless all functions of the expression are immutable. */
static void
reject_mutable(Node *expression)
{
    if (contain_mutable_functions(expression))
        ereport(ERROR, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
                        errmsg("functions in only_when must be marked IMMUTABLE")));
}

void
condition_check(Node *expression)
{
    (void)check_node(expression, NULL);
    reject_mutable(expression);
}

/*
 * Checks the types in a raw parse tree before parse analysis calls the input functions of
 * constants: a type name may now refer to a different type than when the expression was stored. In
 * the stored form each constant has a type name, so the check is complete.
 */
static bool
check_raw_node(Node *node, void *context)
{
    if (node == NULL)
        return false;
    if (IsA(node, TypeName))
        reject_constant_of(typenameTypeId(NULL, (TypeName *)node));
    return raw_expression_tree_walker(node, check_raw_node, context);
}

PG_FUNCTION_INFO_V1(clairon_condition_store);
PG_FUNCTION_INFO_V1(clairon_condition_show);

/* Maps $n to columns while the stored form is parsed. */
struct numbering {
    const int *map;
    int map_count;
    TupleDesc desc;
};

Node *
condition_parse_raw(const char *text)
{
    List *statements = raw_parser(psprintf("SELECT %s", text), RAW_PARSE_DEFAULT);
    SelectStmt *select;
    ResTarget *target;

    if (list_length(statements) == 1) {
        select = (SelectStmt *)linitial_node(RawStmt, statements)->stmt;
        if (IsA(select, SelectStmt) && list_length(select->targetList) == 1 &&
            select->op == SETOP_NONE && select->distinctClause == NIL &&
            select->intoClause == NULL && select->fromClause == NIL &&
            select->whereClause == NULL && select->groupClause == NIL &&
            select->havingClause == NULL && select->windowClause == NIL &&
            select->valuesLists == NIL && select->sortClause == NIL &&
            select->limitOffset == NULL && select->limitCount == NULL &&
            select->lockingClause == NIL && select->withClause == NULL) {
            target = linitial_node(ResTarget, select->targetList);
            if (target->name == NULL && target->indirection == NIL)
                return target->val;
        }
    }
    ereport(ERROR,
            (errcode(ERRCODE_SYNTAX_ERROR), errmsg("exactly one boolean expression is required")));
}

/* EXPR_KIND_CHECK_CONSTRAINT rejects subqueries, aggregates, window and set-returning functions. */
static Node *
analyze(ParseState *state, const char *text)
{
    Node *raw = condition_parse_raw(text);
    Node *expression;

    (void)check_raw_node(raw, NULL);
    expression = transformExpr(state, raw, EXPR_KIND_CHECK_CONSTRAINT);
    expression = coerce_to_boolean(state, expression, "only_when");
    assign_expr_collations(state, expression);
    return expression;
}

static Node *
resolve_number(ParseState *state, ParamRef *reference)
{
    const struct numbering *numbering = state->p_ref_hook_state;
    Form_pg_attribute attribute;
    int index = -1;

    if (reference->number >= 1 && reference->number <= numbering->map_count)
        index = numbering->map[reference->number - 1];
    if (index < 0)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("column %d was dropped", reference->number)));
    attribute = TupleDescAttr(numbering->desc, index);
    return (Node *)makeVar(1, attribute->attnum, attribute->atttypid, attribute->atttypmod,
                           attribute->attcollation, 0);
}

int *
condition_map(const int16 *origins, const int16 *numbers, int count, const int *columns,
              int column_count, int *ret_count)
{
    int max = 0;
    int *map;

    for (int i = 0; i < count; i++)
        max = Max(max, origins[i]);
    map = palloc(sizeof(int) * Max(max, 1));
    for (int i = 0; i < max; i++)
        map[i] = -1;
    for (int i = 0; i < count; i++)
        if (origins[i] > 0 && numbers[i] > 0 && numbers[i] <= column_count)
            map[origins[i] - 1] = columns[numbers[i] - 1];
    *ret_count = max;
    return map;
}

Node *
condition_parse_stored(const char *stored, const int *map, int map_count, TupleDesc desc)
{
    struct numbering numbering = {map, map_count, desc};
    ParseState *state = make_parsestate(NULL);
    Node *expression;

    state->p_paramref_hook = resolve_number;
    state->p_ref_hook_state = &numbering;
    expression = analyze(state, stored);
    /* Checks again, because names may now refer to other functions, types and domains. */
    condition_check(expression);
    return expression;
}

static Node *
parse_named(const char *text, Relation relation)
{
    ParseState *state = make_parsestate(NULL);
    ParseNamespaceItem *item =
        addRangeTableEntryForRelation(state, relation, AccessShareLock, NULL, false, true);

    addNSItemToQuery(state, item, false, true, true);
    return analyze(state, text);
}

/* Replaces each column by a Param, which is deparsed as $n. */
static Node *
number_columns(Node *node, void *context)
{
    Param *param;
    Var *var;

    if (node == NULL)
        return NULL;
    if (!IsA(node, Var))
        return expression_tree_mutator(node, number_columns, context);
    var = (Var *)node;
    if (var->varattno <= 0)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("whole-row references and system columns are not allowed")));
#ifdef ATTRIBUTE_GENERATED_VIRTUAL
    if (TupleDescAttr((TupleDesc)context, var->varattno - 1)->attgenerated ==
        ATTRIBUTE_GENERATED_VIRTUAL)
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("virtual generated columns are not allowed"),
                 errdetail("The WAL does not contain the values of virtual generated columns.")));
#endif
    param = makeNode(Param);
    param->paramkind = PARAM_EXTERN;
    param->paramid = var->varattno;
    param->paramtype = var->vartype;
    param->paramtypmod = var->vartypmod;
    param->paramcollid = var->varcollid;
    param->location = -1;
    return (Node *)param;
}

struct user_context {
    Oid user;
    int context;
};

/*
 * Parsing may call user code: input functions of types, constraints of domains. That code must run
 * as the table's owner, not as the superuser who owns the extension. An error restores the caller.
 */
static struct user_context
switch_to_owner(Oid owner)
{
    struct user_context caller;

    GetUserIdAndSecContext(&caller.user, &caller.context);
    SetUserIdAndSecContext(owner, caller.context | SECURITY_RESTRICTED_OPERATION);
    return caller;
}

/*
 * Rejects mutable and unsafe functions. An expression with functions in other languages is checked
 * after planning, which inlines SQL functions and folds constants.
 */
static Node *
check_new(Node *expression)
{
    Node *planned = (Node *)expression_planner((Expr *)copyObject(expression));

    reject_mutable(planned);
    if (calls_foreign_language(expression, NULL))
        expression = planned;
    condition_check(expression);
    return expression;
}

/*
 * Names are looked up in the caller's search_path, including names in inlined functions. Constant
 * folding may run the owner's functions: settings that these change are reverted, since the
 * following code has more privileges.
 */
static Node *
parse_in_path(const char *text, Relation relation, const char *path)
{
    int level = NewGUCNestLevel();
    Node *expression;

    (void)set_config_option("search_path", path, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
                            0, false);
    expression = check_new(parse_named(text, relation));
    AtEOXact_GUC(false, level);
    return expression;
}

/*
 * condition_store(relation oid, expression text, search_path text) -> text: checks an expression
 * and returns its stored form, with schema names for all objects outside pg_catalog.
 */
Datum
clairon_condition_store(PG_FUNCTION_ARGS)
{
    Relation relation = table_open(PG_GETARG_OID(0), AccessShareLock);
    struct user_context caller = switch_to_owner(relation->rd_rel->relowner);
    Node *expression = parse_in_path(text_to_cstring(PG_GETARG_TEXT_PP(1)), relation,
                                     text_to_cstring(PG_GETARG_TEXT_PP(2)));
    char *stored;

    stored = deparse_expression(number_columns(expression, RelationGetDescr(relation)), NIL, false,
                                false);
    SetUserIdAndSecContext(caller.user, caller.context);
    table_close(relation, AccessShareLock);
    PG_RETURN_TEXT_P(cstring_to_text(stored));
}

static const int16 *
numbers_argument(ArrayType *array, int *ret_count)
{
    if (ARR_ELEMTYPE(array) != INT2OID || ARR_HASNULL(array))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("array must be of type int2[] and must not contain nulls")));
    *ret_count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
    return (const int16 *)ARR_DATA_PTR(array);
}

/*
 * Returns a context for deparse_expression in which Vars are the columns. deparse_context_for would
 * lock the relation.
 */
static List *
columns_context(TupleDesc desc)
{
    RangeTblEntry *columns = makeNode(RangeTblEntry);
    PlannedStmt *plan = makeNode(PlannedStmt);

    columns->rtekind = RTE_VALUES;
    columns->eref = makeAlias("columns", NIL);
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);
        char *name = attribute->attisdropped ? "" : NameStr(attribute->attname);

        columns->eref->colnames = lappend(columns->eref->colnames, makeString(pstrdup(name)));
    }
    plan->rtable = list_make1(columns);
    return deparse_context_for_plan_tree(plan, list_make1(columns->eref->aliasname));
}

/* Loads the row types that an expression on these columns may use. */
static void
load_row_types(TupleDesc desc, const int *map, int map_count)
{
    const struct encode_settings settings = {0};
    struct encoders *encoders = encoders_new(&settings, NULL, NULL);

    for (int i = 0; i < map_count; i++)
        if (map[i] >= 0)
            (void)encoders_get(encoders, TupleDescAttr(desc, map[i])->atttypid);
    encoders_load_row_types(encoders);
}

/*
 * Parses the stored form with the current columns, as the owner of the relation. *ret_caller is the
 * user before. Does not lock the relation: anybody reads the conditions of all owners, who may keep
 * their tables locked.
 */
static Node *
read_stored(Oid relid, const char *stored, ArrayType *origins_array, ArrayType *numbers_array,
            TupleDesc *ret_desc, struct user_context *ret_caller)
{
    Relation relation = RelationIdGetRelation(relid);
    int count;
    int number_count;
    const int16 *origins = numbers_argument(origins_array, &count);
    const int16 *numbers = numbers_argument(numbers_array, &number_count);
    TupleDesc desc;
    int *columns;
    int *map;

    if (!RelationIsValid(relation))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("relation with OID %u does not exist", relid)));
    desc = CreateTupleDescCopy(RelationGetDescr(relation));
    *ret_caller = switch_to_owner(relation->rd_rel->relowner);
    RelationClose(relation);
    columns = palloc(sizeof(int) * Max(desc->natts, 1));
    for (int i = 0; i < desc->natts; i++)
        columns[i] = TupleDescAttr(desc, i)->attisdropped ? -1 : i;
    map = condition_map(origins, numbers, Min(count, number_count), columns, desc->natts, &count);
    load_row_types(desc, map, count);
    *ret_desc = desc;
    return condition_parse_stored(stored, map, count, desc);
}

/*
 * condition_show(relation oid, stored text, origins int2[], numbers int2[]) -> text: the stored
 * form with the current column names.
 */
Datum
clairon_condition_show(PG_FUNCTION_ARGS)
{
    struct user_context caller;
    TupleDesc desc;
    Node *expression =
        read_stored(PG_GETARG_OID(0), text_to_cstring(PG_GETARG_TEXT_PP(1)),
                    PG_GETARG_ARRAYTYPE_P(2), PG_GETARG_ARRAYTYPE_P(3), &desc, &caller);
    char *deparsed = deparse_expression(expression, columns_context(desc), false, false);

    SetUserIdAndSecContext(caller.user, caller.context);
    PG_RETURN_TEXT_P(cstring_to_text(deparsed));
}

Node *
condition_numbered(Oid relid, const char *stored, ArrayType *origins, ArrayType *numbers)
{
    struct user_context caller;
    TupleDesc desc;
    Node *expression = read_stored(relid, stored, origins, numbers, &desc, &caller);

    SetUserIdAndSecContext(caller.user, caller.context);
    return number_columns(expression, desc);
}

char *
condition_text(Oid relid, Node *numbered)
{
    Relation relation = RelationIdGetRelation(relid);
    struct user_context caller;
    char *deparsed;

    if (!RelationIsValid(relation))
        elog(ERROR, "relation with OID %u does not exist", relid);
    caller = switch_to_owner(relation->rd_rel->relowner);
    RelationClose(relation);
    deparsed = deparse_expression(numbered, NIL, false, false);
    SetUserIdAndSecContext(caller.user, caller.context);
    return deparsed;
}
