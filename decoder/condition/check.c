/* check.c: reject expressions that could run SQL or volatile code, or that have no bound. */
#include "condition/check.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

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

bool
condition_calls_foreign_language(Node *expression)
{
    return calls_foreign_language(expression, NULL);
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

void
condition_reject_mutable(Node *expression)
{
    if (contain_mutable_functions(expression))
        ereport(ERROR, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
                        errmsg("functions in only_when must be marked IMMUTABLE")));
}

void
condition_check(Node *expression)
{
    (void)check_node(expression, NULL);
    condition_reject_mutable(expression);
}

/* A type name may now refer to a different type than when the expression was stored. */
static bool
check_raw_node(Node *node, void *context)
{
    if (node == NULL)
        return false;
    if (IsA(node, TypeName))
        reject_constant_of(typenameTypeId(NULL, (TypeName *)node));
    return raw_expression_tree_walker(node, check_raw_node, context);
}

void
condition_check_raw(Node *raw)
{
    (void)check_raw_node(raw, NULL);
}
