/*
 * condition.c: prepare and evaluate only_when on decoded rows.
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
#include "rules/condition.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "executor/execExpr.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/data.h"
#include "base/sandbox.h"
#include "rules/objects.h"
#include "rules/rules.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "condition.c uses internals of PostgreSQL that were checked for versions 15 to 18"
#endif

/*
 * The work limit of one call or plain condition, a product of sizes in bytes: about half a second.
 */
#define CONDITION_WORK_MAX (INT64CONST(1) << 28)

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

/* True for a comparison operator: its function needs linear time. */
static bool
is_comparison_operator(Oid operator)
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
        return is_comparison_operator(((const OpExpr *)call)->opno);
    case T_ScalarArrayOpExpr:
        return is_comparison_operator(((const ScalarArrayOpExpr *)call)->opno);
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

/*
 * Like ExecInitExpr, in the current memory context. Each call of the expression first checks for
 * interrupts, and raises an error when its arguments allow more work than CONDITION_WORK_MAX. The
 * run time of many functions is proportional to the product of two sizes, and they do not check for
 * interrupts.
 */
static ExprState *
init_bounded(Expr *expression)
{
    ExprState *state = ExecInitExpr(expression, NULL);

    bound_steps(state);
    return state;
}

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

    value = ExecEvalExprSwitchContext(init_bounded((Expr *)node), context, &is_null);
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

/*
 * Completes the calls and folds constants, in the current memory context. The planner also inlines
 * functions, calls support functions, and folds constants without a limit. Adds the objects that
 * the expression uses: with *ret_is_lasting it is the same until one of them changes.
 */
static Node *
prepare_expression(Node *expression, struct objects *objects, bool *ret_is_lasting)
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
    return OidIsValid(operator) && are_scalar(args) && is_comparison_operator(operator);
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

/*
 * Returns true at the first node that is not plain. A plain condition has only IN, LIKE, boolean
 * logic, and comparisons of columns with constants by PostgreSQL's own operators. Most conditions
 * are plain. The time and memory of its evaluation are at most `weight`, which counts its nodes,
 * times the size of its columns.
 */
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

struct condition_row {
    ExprContext *context;
    TupleTableSlot *slot;
};

struct condition_column {
    int index; /* index in the decoded relation */
    int16 typlen;
    bool in_key;
};

struct condition {
    struct sandbox *sandbox;
    struct account *account;
    struct condition_row *row;
    MemoryContext memory;        /* contains all members below except `fault` */
    struct tracked_memory *kept; /* allocated in `memory` */
    ExprState *state;            /* NULL: could not be prepared */
    bool plain;
    bool lasting;
    bool is_over_memory;
    int64 weight; /* work of a plain condition per byte of its columns */
    int column_count;
    struct condition_column *columns; /* read by the condition */
    char *fault;                      /* message of the last error */
};

/* A plain condition with less work than this, in bytes, runs without limits. */
#define UNLIMITED_WORK (64 * 1024)

static void
list_columns(struct condition *condition, Node *expression, Relation decoded, const Bitmapset *key)
{
    TupleDesc desc = RelationGetDescr(decoded);
    Bitmapset *read = NULL;
    int at = -1;

    pull_varattnos(expression, 1, &read);
    condition->column_count = 0;
    condition->columns = palloc(sizeof(*condition->columns) * Max(bms_num_members(read), 1));
    while ((at = bms_next_member(read, at)) >= 0) {
        int number = at + FirstLowInvalidHeapAttributeNumber;
        int i = condition->column_count++;

        condition->columns[i].index = number - 1;
        condition->columns[i].typlen = TupleDescAttr(desc, number - 1)->attlen;
        condition->columns[i].in_key = bms_is_member(at, key);
    }
}

/* The arguments and the result of condition_new. */
struct build {
    const struct rule *rule;
    const int *map;
    int map_count;
    Relation decoded;
    struct condition *condition;
    MemoryContext scratch;
    struct objects *objects;
};

struct condition_row *
condition_row_new(Relation decoded)
{
    struct condition_row *row = palloc(sizeof(*row));

    row->slot = MakeTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(decoded)), &TTSOpsVirtual);
    row->context = CreateStandaloneExprContext();
    row->context->ecxt_scantuple = row->slot;
    return row;
}

static Node *
read_expression(struct build *build)
{
    MemoryContext keep = MemoryContextSwitchTo(build->scratch);
    const struct rule *rule = build->rule;
    Node *expression;
    int map_count;
    int *map;

    map = condition_map(rule->origins, rule->numbers, rule->origin_count, build->map,
                        build->map_count, &map_count);
    expression =
        condition_parse_stored(rule->only_when, map, map_count, RelationGetDescr(build->decoded));
    expression = prepare_expression(expression, build->objects, &build->condition->lasting);
    MemoryContextSwitchTo(keep);
    return copyObject(expression);
}

/* Must be repeatable, because sandbox_run may call this function twice. */
static void
build_condition(void *arg)
{
    struct build *build = arg;
    Relation decoded = build->decoded;
    struct condition *condition = build->condition;
    MemoryContext outer = MemoryContextSwitchTo(condition->memory);
    Node *expression;

    MemoryContextReset(build->scratch);
    MemoryContextReset(condition->memory);
    expression = read_expression(build);
    /* Outside of decoding all images are whole, so the key is not needed. */
    list_columns(condition, expression, decoded,
                 HistoricSnapshotActive() ? RelationGetIdentityKeyBitmap(decoded) : NULL);
    condition->weight = 0;
    condition->plain = !is_costly(expression, &condition->weight);
    condition->state = condition->plain ? ExecInitExpr((Expr *)expression, NULL)
                                        : init_bounded((Expr *)expression);
    MemoryContextSwitchTo(outer);
}

static void
discard(struct condition *condition)
{
    MemoryContextDelete(condition->memory);
    condition->memory = NULL;
    condition->state = NULL;
}

static void
track_memory(struct condition *condition, int64 limit)
{
    condition->kept =
        sandbox_track(condition->sandbox, condition->account, condition->memory, true);
    if (sandbox_recount(condition->kept))
        return;
    discard(condition);
    condition->is_over_memory = true;
    condition->fault = psprintf("conditions of the table's owner exceed %lld MB",
                                (long long)(limit / (1024 * 1024)));
}

struct condition *
condition_new(struct sandbox *sandbox, const struct rule *rule, const int *map, int map_count,
              Relation decoded, struct condition_row *row, struct account *account,
              struct objects *objects)
{
    struct condition *condition = palloc0(sizeof(*condition));
    struct build build = {rule, map, map_count, decoded, condition, NULL, objects};

    condition->sandbox = sandbox;
    condition->account = account;
    condition->row = row;
    condition->memory =
        AllocSetContextCreate(CurrentMemoryContext, "clairon condition", ALLOCSET_SMALL_SIZES);
    build.scratch = AllocSetContextCreate(CurrentMemoryContext, "clairon condition build",
                                          ALLOCSET_DEFAULT_SIZES);
    if (sandbox_run(sandbox, account->owner, SANDBOX_PREPARE, build_condition, &build,
                    &condition->fault))
        track_memory(condition, sandbox_memory_limit(sandbox));
    else
        discard(condition);
    MemoryContextDelete(build.scratch);
    return condition;
}

void
condition_free(struct condition *condition)
{
    if (condition->memory != NULL)
        MemoryContextDelete(condition->memory);
    /* The message of a failed preparation has the lifetime of the condition. */
    if (condition->state == NULL && condition->fault != sandbox_no_time)
        pfree(condition->fault);
    pfree(condition);
}

bool
condition_is_lasting(const struct condition *condition)
{
    return condition->state != NULL && condition->lasting;
}

bool
condition_is_over(const struct condition *condition, enum account_kind *ret_kind)
{
    if (!condition->is_over_memory && condition->fault != sandbox_no_time)
        return false;
    *ret_kind = condition->is_over_memory ? ACCOUNT_MEMORY : ACCOUNT_TIME;
    return true;
}

const char *
condition_error(const struct condition *condition)
{
    return condition->fault;
}

/* Sums up the uncompressed sizes of the variable-length columns. */
static bool
image_has_columns(const struct condition *condition, const struct image *image, int64 *ret_bytes)
{
    *ret_bytes = 0;
    if (!image->present)
        return condition->column_count == 0;
    for (int i = 0; i < condition->column_count; i++) {
        int at = condition->columns[i].index;
        int16 typlen = condition->columns[i].typlen;

        if (!image->whole && !condition->columns[i].in_key)
            return false;
        if (image_lacks(image, at, typlen))
            return false;
        if (typlen == -1 && !image->nulls[at])
            *ret_bytes += toast_raw_datum_size(image->values[at]);
    }
    return true;
}

static void
store_row(TupleTableSlot *slot, const struct image *image)
{
    int natts = slot->tts_tupleDescriptor->natts;

    ExecClearTuple(slot);
    memcpy(slot->tts_values, image->values, sizeof(Datum) * natts);
    memcpy(slot->tts_isnull, image->nulls, sizeof(bool) * natts);
    ExecStoreVirtualTuple(slot);
}

struct evaluation {
    struct condition *condition;
    bool met;
};

static void
evaluate(void *arg)
{
    struct evaluation *evaluation = arg;
    bool is_null;
    Datum value = ExecEvalExprSwitchContext(evaluation->condition->state,
                                            evaluation->condition->row->context, &is_null);

    evaluation->met = !is_null && DatumGetBool(value);
}

/* A plain condition calls only functions of PostgreSQL: small rows need no limits. */
static bool
evaluate_limited(struct evaluation *evaluation, int64 bytes)
{
    struct condition *condition = evaluation->condition;
    int64 work = condition->weight * bytes;

    if (condition->plain && work <= UNLIMITED_WORK)
        return guard_try(evaluate, evaluation, &condition->fault);
    if (condition->plain && work > CONDITION_WORK_MAX) {
        condition->fault = pstrdup("column values are too large");
        return false;
    }
    return sandbox_run(condition->sandbox, condition->account->owner, SANDBOX_EVALUATE, evaluate,
                       evaluation, &condition->fault);
}

enum condition_result
condition_evaluate(struct condition *condition, const struct image *image)
{
    struct evaluation evaluation = {condition, false};
    int64 bytes;
    bool done;

    if (condition->state == NULL)
        return CONDITION_FAILED;
    if (!image_has_columns(condition, image, &bytes))
        return CONDITION_UNKNOWN;
    condition->fault = NULL;
    store_row(condition->row->slot, image);
    done = evaluate_limited(&evaluation, bytes);
    ResetExprContext(condition->row->context);
    /* Functions cache lookups at their first call. The caches of plain conditions are small. */
    if (!condition->plain)
        (void)sandbox_recount(condition->kept);
    if (!done)
        return CONDITION_FAILED;
    return evaluation.met ? CONDITION_TRUE : CONDITION_FALSE;
}
