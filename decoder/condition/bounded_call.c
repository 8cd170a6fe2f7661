/*
 * bounded_call.c: makes function calls of expressions interruptible, and limits their work.
 *
 * The server checks for interrupts between the steps of an expression, not within a function, and
 * an expression has no hook before a call. So each step that calls a function is changed to call
 * call_bounded first.
 *
 * Only this file uses these server internals, which are the same in PostgreSQL 15 to 18 except for
 * two additional opcodes in 18:
 *   ExprState.steps, .steps_len          the steps of a prepared expression
 *   ExprEvalStep.opcode                  read by ExecEvalStepOp
 *   ExprEvalStep.d.func                  finfo, fcinfo_data and fn_addr of a call
 *   ExprEvalStep.d.scalararrayop         the same for an operator on an array
 *   ExprEvalStep.d.arraycoerce           the expression for the elements
 */
#include "condition/bounded_call.h"

#include "access/detoast.h"
#include "executor/execExpr.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "bounded_call.c uses internals of PostgreSQL that were checked for versions 15 to 18"
#endif

/* How a call's work grows with the sizes of its variable-length arguments. */
enum growth {
    GROWTH_LINEAR,  /* includes functions that check for interrupts */
    GROWTH_PRODUCT, /* the product of the two largest sizes */
    GROWTH_SQUARE   /* the square of the largest size */
};

/* Replaces the FmgrInfo of a call. FmgrInfo is the first member. */
struct bounded_call {
    FmgrInfo info;
    PGFunction function;
    enum growth growth;
    bool slow_collation; /* nondeterministic: compares each substring */
    int count;           /* number of variable-length arguments */
    int arguments[FUNC_MAX_ARGS];
};

bool
condition_is_comparison(Oid operator)
{
#if PG_VERSION_NUM >= 180000
    return get_op_index_interpretation(operator) != NIL;
#else
    return get_op_btree_interpretation(operator) != NIL;
#endif
}

static bool
is_comparison(const Node *call)
{
    switch (nodeTag(call)) {
    case T_OpExpr:
    case T_DistinctExpr:
    case T_NullIfExpr:
        return condition_is_comparison(((const OpExpr *)call)->opno);
    case T_ScalarArrayOpExpr:
        return condition_is_comparison(((const ScalarArrayOpExpr *)call)->opno);
    default:
        return false;
    }
}

static enum growth
growth_of(const FmgrInfo *info)
{
    switch (info->fn_oid) {
    case F_NORMALIZE:
    case F_IS_NORMALIZED:
        return GROWTH_SQUARE;
    case F_TEXTCAT:
    case F_TEXTANYCAT:
    case F_ANYTEXTCAT:
    case F_BYTEACAT:
    case F_ARRAY_CAT:
    case F_ARRAY_APPEND:
    case F_ARRAY_PREPEND:
    case F_JSONB_CONCAT:
    case F_TSVECTOR_CONCAT:
    case F_STARTS_WITH:
    case F_TS_MATCH_VQ:
    case F_TS_MATCH_QV:
        return GROWTH_LINEAR;
    default:
        return is_comparison(info->fn_expr) ? GROWTH_LINEAR : GROWTH_PRODUCT;
    }
}

static void
raise_too_large(const struct bounded_call *call, int64 max)
{
    ereport(ERROR,
            (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
             errmsg("arguments of function %s are too large", format_procedure(call->info.fn_oid)),
             errdetail("The largest argument has %lld bytes.", (long long)max)));
}

static void
check_work(const struct bounded_call *call, FunctionCallInfo fcinfo)
{
    int64 max = 0;
    int64 second = 0;
    int64 work;

    for (int i = 0; i < call->count; i++) {
        const NullableDatum *argument = &fcinfo->args[call->arguments[i]];
        int64 size = argument->isnull ? 0 : (int64)toast_raw_datum_size(argument->value);

        second = Max(second, Min(size, max));
        max = Max(max, size);
    }
    work = max * (call->growth == GROWTH_SQUARE ? max : second);
    if (work > CONDITION_WORK_MAX ||
        (call->slow_collation && work > CONDITION_WORK_MAX / Max(max, 1)))
        raise_too_large(call, max);
}

static Datum
call_bounded(PG_FUNCTION_ARGS)
{
    struct bounded_call *call = (struct bounded_call *)fcinfo->flinfo;

    CHECK_FOR_INTERRUPTS();
    if (call->growth != GROWTH_LINEAR)
        check_work(call, fcinfo);
    return call->function(fcinfo);
}

static void
find_arguments(struct bounded_call *call, int count)
{
    for (int i = 0; i < Min(count, FUNC_MAX_ARGS); i++) {
        Oid type = get_call_expr_argtype(call->info.fn_expr, i);

        if (OidIsValid(type) && get_typlen(type) == -1)
            call->arguments[call->count++] = i;
    }
}

/* Inserts call_bounded between a step of the expression and its function. */
static PGFunction
bound_call(FmgrInfo **finfo, FunctionCallInfo fcinfo)
{
    struct bounded_call *call = palloc0(sizeof(*call));

    call->info = **finfo;
    call->function = call->info.fn_addr;
    /* Some steps call fn_addr; other steps call a separate copy of the address. */
    call->info.fn_addr = call_bounded;
    call->growth = growth_of(&call->info);
    find_arguments(call, fcinfo->nargs);
#if PG_VERSION_NUM >= 180000
    call->slow_collation =
        OidIsValid(fcinfo->fncollation) && !get_collation_isdeterministic(fcinfo->fncollation);
#endif
    *finfo = &call->info;
    fcinfo->flinfo = &call->info;
    return call_bounded;
}

/*
 * Other steps call functions with linear work, such as input and output functions and comparisons,
 * or functions that check for interrupts, such as jsonpath functions.
 */
static void
bound_steps(ExprState *state)
{
    for (int i = 0; i < state->steps_len; i++) {
        ExprEvalStep *step = &state->steps[i];

        switch (ExecEvalStepOp(state, step)) {
        case EEOP_FUNCEXPR:
        case EEOP_FUNCEXPR_STRICT:
#if PG_VERSION_NUM >= 180000
        case EEOP_FUNCEXPR_STRICT_1:
        case EEOP_FUNCEXPR_STRICT_2:
#endif
        case EEOP_FUNCEXPR_FUSAGE:
        case EEOP_FUNCEXPR_STRICT_FUSAGE:
        case EEOP_DISTINCT:
        case EEOP_NOT_DISTINCT:
        case EEOP_NULLIF:
            step->d.func.fn_addr = bound_call(&step->d.func.finfo, step->d.func.fcinfo_data);
            break;
        case EEOP_SCALARARRAYOP:
            step->d.scalararrayop.fn_addr =
                bound_call(&step->d.scalararrayop.finfo, step->d.scalararrayop.fcinfo_data);
            break;
        case EEOP_ARRAYCOERCE:
            if (step->d.arraycoerce.elemexprstate != NULL)
                bound_steps(step->d.arraycoerce.elemexprstate);
            break;
        default:
            break;
        }
    }
}

ExprState *
condition_init_bounded(Expr *expression)
{
    ExprState *state = ExecInitExpr(expression, NULL);

    bound_steps(state);
    return state;
}
