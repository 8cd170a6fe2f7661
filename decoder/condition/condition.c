/* condition.c: evaluate only_when on decoded rows. */
#include "condition/condition.h"

#include "access/detoast.h"
#include "access/sysattr.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"

#include "base/guard.h"
#include "base/image.h"
#include "condition/bounded_call.h"
#include "condition/parse.h"
#include "condition/prepare.h"
#include "condition/sandbox.h"
#include "rules/rule.h"

struct condition {
    struct bounds *bounds;
    Oid owner;
    MemoryContext memory;     /* of all below but `fault` */
    struct kept_memory *kept; /* in it */
    ExprState *state;         /* NULL: it cannot be evaluated */
    ExprContext *context;
    TupleTableSlot *slot;
    bool plain;
    int64 weight; /* of a plain one: work per byte of the columns that it reads */
    int column_count;
    struct {
        int index; /* in the decoded relation */
        int16 typlen;
        bool in_key;
    } * columns; /* that it reads */
    char *fault; /* what the last error said */
};

/* A plain condition that does less work than this needs no limits; in bytes. */
#define UNLIMITED_WORK (64 * 1024)

static void
note_columns(struct condition *condition, Node *expression, Relation decoded, const Bitmapset *key)
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

/* What condition_new makes a condition of. */
struct making {
    const struct rule *rule;
    const int *map;
    int map_count;
    Relation decoded;
    struct condition *condition;
    MemoryContext scratch;
};

static Node *
read_expression(struct making *making)
{
    MemoryContext keep = MemoryContextSwitchTo(making->scratch);
    const struct rule *rule = making->rule;
    Node *expression;
    int map_count;
    int *map;

    map = condition_map(rule->origins, rule->numbers, rule->origin_count, making->map,
                        making->map_count, &map_count);
    expression =
        condition_plan(condition_parse_stored(rule->only_when, map, map_count, making->decoded));
    MemoryContextSwitchTo(keep);
    return copyObject(expression);
}

/* May run again after a failure. */
static void
make(void *arg)
{
    struct making *making = arg;
    Relation decoded = making->decoded;
    struct condition *condition = making->condition;
    MemoryContext outer = MemoryContextSwitchTo(condition->memory);
    Node *expression;

    MemoryContextReset(making->scratch);
    MemoryContextReset(condition->memory);
    expression = read_expression(making);
    note_columns(condition, expression, decoded, RelationGetIdentityKeyBitmap(decoded));
    condition->plain = condition_is_plain(expression, &condition->weight);
    condition->slot =
        MakeTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(decoded)), &TTSOpsVirtual);
    condition->context = CreateStandaloneExprContext();
    condition->context->ecxt_scantuple = condition->slot;
    condition->state = condition->plain ? ExecInitExpr((Expr *)expression, NULL)
                                        : condition_init_bounded((Expr *)expression);
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
keep(struct condition *condition)
{
    condition->kept = bounds_keep(condition->bounds, condition->owner, condition->memory);
    if (bounds_recount(condition->kept))
        return;
    discard(condition);
    condition->fault = psprintf("conditions of the table's owner take more than %d MB",
                                BOUNDS_KEPT_MEMORY / (1024 * 1024));
}

struct condition *
condition_new(struct bounds *bounds, const struct rule *rule, const int *map, int map_count,
              Relation decoded, Oid owner)
{
    struct condition *condition = palloc0(sizeof(*condition));
    struct making making = {rule, map, map_count, decoded, condition, NULL};

    condition->bounds = bounds;
    condition->owner = owner;
    condition->memory =
        AllocSetContextCreate(CurrentMemoryContext, "clairon condition", ALLOCSET_SMALL_SIZES);
    making.scratch = AllocSetContextCreate(CurrentMemoryContext, "clairon condition's making",
                                           ALLOCSET_DEFAULT_SIZES);
    if (bounds_run(bounds, owner, make, &making, &condition->fault))
        keep(condition);
    else
        discard(condition);
    MemoryContextDelete(making.scratch);
    return condition;
}

Oid
condition_owner(const struct condition *condition)
{
    return condition->owner;
}

const char *
condition_fault(const struct condition *condition)
{
    return condition->fault;
}

/* Adds up the sizes that the variable-length columns have once they are decompressed. */
static bool
holds_columns(const struct condition *condition, const struct image *image, int64 *ret_bytes)
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
                                            evaluation->condition->context, &is_null);

    evaluation->met = !is_null && DatumGetBool(value);
}

/* A plain condition calls nothing that an owner could have chosen: small rows need no limits. */
static bool
evaluate_limited(struct evaluation *evaluation, int64 bytes)
{
    struct condition *condition = evaluation->condition;
    int64 work = condition->weight * bytes;

    if (condition->plain && work <= UNLIMITED_WORK)
        return guard_try(evaluate, evaluation, &condition->fault);
    if (condition->plain && work > CONDITION_WORK_MAX) {
        condition->fault = pstrdup("the values of its columns are too large");
        return false;
    }
    return bounds_run(condition->bounds, condition->owner, evaluate, evaluation, &condition->fault);
}

enum condition_answer
condition_judge(struct condition *condition, const struct image *image)
{
    struct evaluation evaluation = {condition, false};
    int64 bytes;
    bool done;

    if (condition->state == NULL)
        return CONDITION_FAILED;
    if (!holds_columns(condition, image, &bytes))
        return CONDITION_UNKNOWN;
    store_row(condition->slot, image);
    done = evaluate_limited(&evaluation, bytes);
    ResetExprContext(condition->context);
    /* Functions keep what they look up at their first calls; plain ones look up nothing large. */
    if (!condition->plain)
        (void)bounds_recount(condition->kept);
    if (!done)
        return CONDITION_FAILED;
    return evaluation.met ? CONDITION_TRUE : CONDITION_FALSE;
}
