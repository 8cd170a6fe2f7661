/* prepare.c: prepare a checked expression for evaluation, without PostgreSQL's planner. */
#include "condition/prepare.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/data.h"
#include "condition/bounded_call.h"
#include "condition/check.h"
#include "condition/objects.h"

/* A larger constant is computed again at each evaluation, which limits the memory of rules. */
#define FOLDED_BYTES_MAX (64 * 1024)

/* Converts named and default arguments to positional arguments, as the executor requires. */
static Node *
complete_calls(Node *node, void *context)
{
    if (node == NULL)
        return NULL;
    if (IsA(node, CollateExpr)) {
        CollateExpr *collate = (CollateExpr *)node;
        Node *arg = complete_calls((Node *)collate->arg, context);

        return (Node *)makeRelabelType((Expr *)arg, exprType(arg), exprTypmod(arg),
                                       collate->collOid, COERCE_EXPLICIT_CAST);
    }
    node = expression_tree_mutator(node, complete_calls, context);
    if (IsA(node, FuncExpr)) {
        FuncExpr *call = (FuncExpr *)node;
        HeapTuple function = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));

        if (!HeapTupleIsValid(function))
            elog(ERROR, "cache lookup failed for function %u", call->funcid);
        call->args = expand_function_arguments(call->args, false, call->funcresulttype, function);
        ReleaseSysCache(function);
    }
    return node;
}

/* True for a node with a value that depends on the row or on its parent node. */
static bool
depends_on_row(Node *node, void *context)
{
    if (node == NULL)
        return false;
    if (IsA(node, Var) || IsA(node, CaseTestExpr) || IsA(node, CoerceToDomainValue))
        return true;
    return expression_tree_walker(node, depends_on_row, context);
}

static bool
can_fold(Node *node)
{
    switch (nodeTag(node)) {
    case T_FuncExpr:
    case T_OpExpr:
    case T_ScalarArrayOpExpr:
    case T_ArrayExpr:
    case T_ArrayCoerceExpr:
    case T_CoerceViaIO:
    case T_RelabelType:
    case T_BoolExpr:
        return !depends_on_row(node, NULL);
    default:
        return false;
    }
}

/* NULL when the constant is too large to keep. */
static Node *
make_constant(Node *node, Datum value, bool is_null)
{
    Oid type = exprType(node);
    int16 typlen;
    bool typbyval;

    get_typlenbyval(type, &typlen, &typbyval);
    if (!is_null && typlen == -1) {
        if (toast_raw_datum_size(value) > FOLDED_BYTES_MAX)
            return NULL;
        value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
    } else if (!is_null) {
        value = datumCopy(value, typbyval, typlen);
    }
    return (Node *)makeConst(type, exprTypmod(node), exprCollation(node), typlen, value, is_null,
                             typbyval);
}

static Node *
fold_one(Node *node)
{
    ExprContext *context = CreateStandaloneExprContext();
    Node *constant;
    Datum value;
    bool is_null;

    value = ExecEvalExprSwitchContext(condition_init_bounded((Expr *)node), context, &is_null);
    constant = make_constant(node, value, is_null);
    FreeExprContext(context, true);
    return constant;
}

static Node *
fold(Node *node, void *context)
{
    Node *constant;

    if (node == NULL)
        return NULL;
    CHECK_FOR_INTERRUPTS();
    if (can_fold(node) && (constant = fold_one(node)) != NULL)
        return constant;
    return expression_tree_mutator(node, fold, context);
}

Node *
condition_prepare(Node *expression, struct objects *objects, bool *ret_is_lasting)
{
    bool is_lasting = objects_add_expression(objects, expression);

    expression = complete_calls(expression, NULL);
    /* Default arguments were added. The texts of constants, which are folded, may name objects. */
    *ret_is_lasting = objects_add_expression(objects, expression) && is_lasting;
    condition_check(expression);
    fix_opfuncids(expression);
    return fold(expression, NULL);
}

/* True if comparing two values of the type takes time linear in their sizes. */
static bool
is_scalar_type(Oid type)
{
    switch (type) {
    case TEXTOID:
    case VARCHAROID:
    case BPCHAROID:
    case BYTEAOID:
    case NUMERICOID:
        return true;
    default:
        return get_typlen(type) > 0;
    }
}

static bool
are_scalar(const List *args)
{
    ListCell *cell;

    foreach (cell, args)
        if (!is_scalar_type(exprType(lfirst(cell))))
            return false;
    return true;
}

static bool
are_fixed(const List *args)
{
    ListCell *cell;

    foreach (cell, args)
        if (get_typlen(exprType(lfirst(cell))) <= 0)
            return false;
    return true;
}

static bool
is_like(Oid function)
{
    switch (function) {
    case F_TEXTLIKE:
    case F_TEXTNLIKE:
    case F_TEXTICLIKE:
    case F_TEXTICNLIKE:
    case F_BPCHARLIKE:
    case F_BPCHARNLIKE:
    case F_BPCHARICLIKE:
    case F_BPCHARICNLIKE:
    case F_NAMELIKE:
    case F_NAMENLIKE:
    case F_NAMEICLIKE:
    case F_NAMEICNLIKE:
        return true;
    default:
        return false;
    }
}

/* True for functions on fixed-length values, and for comparisons. */
static bool
is_plain_function(Oid function, Oid operator, const List * args, Oid result)
{
    if (function >= FirstNormalObjectId)
        return false;
    if (are_fixed(args) && get_typlen(result) > 0)
        return true;
    return OidIsValid(operator) && are_scalar(args) && condition_is_comparison(operator);
}

/* True for LIKE with a constant pattern. */
static bool
is_plain_like(const OpExpr *call, int64 *weight)
{
    const Const *pattern;

    if (!is_like(call->opfuncid) || !OidIsValid(call->inputcollid) ||
        !get_collation_isdeterministic(call->inputcollid) || !IsA(lsecond(call->args), Const))
        return false;
    pattern = lsecond(call->args);
    if (!pattern->constisnull)
        *weight += VARSIZE_ANY(DatumGetPointer(pattern->constvalue));
    return true;
}

static bool
is_plain_in(const ScalarArrayOpExpr *call, int64 *weight)
{
    const Const *array = lsecond(call->args);
    Oid element;

    if (!IsA(array, Const) || array->constisnull)
        return false;
    element = get_element_type(array->consttype);
    if (!OidIsValid(element) || !is_scalar_type(element) ||
        !is_plain_function(call->opfuncid, call->opno, list_make1(linitial(call->args)), BOOLOID))
        return false;
    *weight += ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(array->constvalue)),
                              ARR_DIMS(DatumGetArrayTypeP(array->constvalue)));
    return true;
}

/* Returns true at the first node that is not plain. */
static bool
is_costly(Node *node, void *context)
{
    int64 *weight = context;

    if (node == NULL)
        return false;
    switch (nodeTag(node)) {
    case T_Var:
    case T_Const:
    case T_List:
    case T_RelabelType:
    case T_BoolExpr:
    case T_BooleanTest:
    case T_CaseExpr:
    case T_CaseWhen:
    case T_CaseTestExpr:
    case T_CoalesceExpr:
        break;
    case T_NullTest:
        if (((NullTest *)node)->argisrow)
            return true;
        break;
    case T_OpExpr:
    case T_DistinctExpr:
    case T_NullIfExpr: {
        OpExpr *call = (OpExpr *)node;

        if (!is_plain_function(call->opfuncid, call->opno, call->args, call->opresulttype) &&
            !is_plain_like(call, weight))
            return true;
        break;
    }
    case T_ScalarArrayOpExpr:
        if (!is_plain_in((ScalarArrayOpExpr *)node, weight))
            return true;
        break;
    case T_FuncExpr: {
        FuncExpr *call = (FuncExpr *)node;

        if (!is_plain_function(call->funcid, InvalidOid, call->args, call->funcresulttype))
            return true;
        break;
    }
    default:
        return true;
    }
    ++*weight;
    return expression_tree_walker(node, is_costly, context);
}

bool
condition_is_plain(Node *expression, int64 *ret_weight)
{
    *ret_weight = 0;
    return !is_costly(expression, ret_weight);
}
