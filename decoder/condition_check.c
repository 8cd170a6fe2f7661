/* condition_check.c: refuse expressions that could run SQL, volatile code or without a bound. */
#include "condition_check.h"

#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/*
 * Functions of other languages run SQL, for which decoding has no snapshot: in
 * the plugin such a call could take the server down.
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

bool
condition_calls_foreign_language(Node *expression)
{
    return calls_foreign_language(expression, NULL);
}

/* libxml looks at no cancel request, and its cost does not follow from the size of its input. */
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
refuse_xml(void)
{
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("parsing XML is not valid: its time and memory cannot be limited")));
}

static bool
refuse_function(Oid function, void *context)
{
    if (parses_xml(function))
        refuse_xml();
    if (is_foreign_language(function, context))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("function %s is not valid: only functions written in C are, and in "
                               "SQL if they can be inlined",
                               get_func_name(function))));
    return false;
}

/*
 * True for a type whose values may hold a domain's, or come to: reading one from
 * text runs the domain's constraints, which may call anything.
 */
static bool
may_hold_domain(Oid type)
{
    Oid element = get_element_type(type);

    if (OidIsValid(element))
        return may_hold_domain(element);
    switch (get_typtype(type)) {
    case TYPTYPE_BASE:
    case TYPTYPE_ENUM:
        return false;
    case TYPTYPE_RANGE:
        return may_hold_domain(get_range_subtype(type));
    case TYPTYPE_MULTIRANGE:
        return may_hold_domain(get_multirange_range(type));
    default:
        return true;
    }
}

static void
refuse_constant_of(Oid type)
{
    if (getBaseType(type) == XMLOID)
        refuse_xml();
    if (may_hold_domain(getBaseType(type)))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("a value of type %s is not valid: it may hold a domain's",
                               format_type_be(type))));
}

/* True for a node whose evaluation, or whose mere parsing, reads a value from text. */
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

static bool
check_node(Node *node, void *context)
{
    if (node == NULL)
        return false;
    if (IsA(node, XmlExpr))
        refuse_xml();
    if (IsA(node, CoerceToDomain) && DomainHasConstraints(((CoerceToDomain *)node)->resulttype))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("a cast to domain %s is not valid: it has constraints",
                               format_type_be(((CoerceToDomain *)node)->resulttype))));
    if (reads_text(node) && may_hold_domain(exprType(node)))
        refuse_constant_of(exprType(node));
    (void)check_functions_in_node(node, refuse_function, context);
    return expression_tree_walker(node, check_node, context);
}

void
condition_refuse_mutable(Node *expression)
{
    if (contain_mutable_functions(expression))
        ereport(ERROR, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
                        errmsg("only functions marked IMMUTABLE are valid")));
}

void
condition_check(Node *expression)
{
    (void)check_node(expression, NULL);
    condition_refuse_mutable(expression);
}

/* A name may stand for another type than when it was stored. */
static bool
check_raw_node(Node *node, void *context)
{
    if (node == NULL)
        return false;
    if (IsA(node, TypeName))
        refuse_constant_of(typenameTypeId(NULL, (TypeName *)node));
    return raw_expression_tree_walker(node, check_raw_node, context);
}

void
condition_check_raw(Node *raw)
{
    (void)check_raw_node(raw, NULL);
}
