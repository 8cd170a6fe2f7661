/* condition.c: evaluate only_when on decoded rows. */
#include "condition.h"

#include "clairon.h"
#include "condition_parse.h"
#include "guard.h"

#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"

struct condition {
    ExprState *state;
    ExprContext *context;
    TupleTableSlot *slot;
    int column_count;
    int *columns; /* that it reads: indexes in the decoded relation */
    bool *in_key;
    int16 *typlens;
    char *fault; /* what the last error said */
};

static void
note_columns(struct condition *condition, Node *expression, Relation decoded, const Bitmapset *key)
{
    List *vars = pull_var_clause(expression, 0);
    ListCell *cell;

    condition->columns = palloc(sizeof(int) * Max(list_length(vars), 1));
    condition->in_key = palloc(sizeof(bool) * Max(list_length(vars), 1));
    condition->typlens = palloc(sizeof(int16) * Max(list_length(vars), 1));
    foreach (cell, vars) {
        int number = ((Var *)lfirst(cell))->varattno;
        int at = condition->column_count++;

        condition->columns[at] = number - 1;
        condition->in_key[at] = bms_is_member(number - FirstLowInvalidHeapAttributeNumber, key);
        condition->typlens[at] = TupleDescAttr(RelationGetDescr(decoded), number - 1)->attlen;
    }
}

/* What condition_new makes a condition of. */
struct making {
    const struct rule *rule;
    const int *map;
    int map_count;
    Relation decoded;
    Oid owner;
    struct condition *condition;
};

static void
make(void *arg)
{
    struct making *making = arg;
    Relation decoded = making->decoded;
    struct condition *condition = making->condition;
    Node *expression;
    int map_count;
    int *map;
    Oid user;
    int context;

    /* An error brings the user back, as does any end of the subtransaction. */
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(making->owner, context | SECURITY_RESTRICTED_OPERATION);
    map = condition_map(making->rule->origins, making->rule->numbers, making->rule->origin_count,
                        making->map, making->map_count, &map_count);
    expression = condition_parse_stored(making->rule->only_when, map, map_count, decoded);
    note_columns(condition, expression, decoded, RelationGetIdentityKeyBitmap(decoded));
    condition->slot =
        MakeTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(decoded)), &TTSOpsVirtual);
    condition->context = CreateStandaloneExprContext();
    condition->context->ecxt_scantuple = condition->slot;
    condition->state = ExecInitExpr(expression_planner((Expr *)expression), NULL);
    SetUserIdAndSecContext(user, context);
}

struct condition *
condition_new(const struct rule *rule, const int *map, int map_count, Relation decoded, Oid owner)
{
    struct condition *condition = palloc0(sizeof(*condition));
    struct making making = {rule, map, map_count, decoded, owner, condition};

    if (!guard_run(make, &making, &condition->fault))
        condition->state = NULL;
    return condition;
}

const char *
condition_fault(const struct condition *condition)
{
    return condition->fault;
}

static bool
holds_columns(const struct condition *condition, const struct image *image)
{
    for (int i = 0; i < condition->column_count; i++) {
        int at = condition->columns[i];

        if (!image->present || (!image->whole && !condition->in_key[i]))
            return false;
        if (image_lacks(image, at, condition->typlens[i]))
            return false;
    }
    return true;
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
    Datum value =
        ExecEvalExpr(evaluation->condition->state, evaluation->condition->context, &is_null);

    evaluation->met = !is_null && DatumGetBool(value);
}

enum condition_answer
condition_judge(struct condition *condition, const struct image *image)
{
    struct evaluation evaluation = {condition, false};
    TupleTableSlot *slot = condition->slot;
    int natts;

    if (condition->state == NULL)
        return CONDITION_FAILED;
    if (!holds_columns(condition, image))
        return CONDITION_UNKNOWN;
    natts = slot->tts_tupleDescriptor->natts;
    ExecClearTuple(slot);
    memcpy(slot->tts_values, image->values, sizeof(Datum) * natts);
    memcpy(slot->tts_isnull, image->nulls, sizeof(bool) * natts);
    ExecStoreVirtualTuple(slot);
    if (!guard_try(evaluate, &evaluation, &condition->fault))
        return CONDITION_FAILED;
    return evaluation.met ? CONDITION_TRUE : CONDITION_FALSE;
}
