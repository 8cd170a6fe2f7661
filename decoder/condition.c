/* condition.c: evaluate only_when on decoded rows. */
#include "condition.h"

#include "clairon.h"
#include "condition_parse.h"

#include "executor/executor.h"
#include "executor/tuptable.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

struct condition {
    ExprState *state;
    ExprContext *context;
    TupleTableSlot *slot;
    int column_count;
    int *columns; /* that it reads: indexes in the decoded relation */
    bool *in_key;
    int16 *typlens;
};

/*
 * True for errors of the expression itself, which are an answer like another.
 * What says that the server is stopping or short of something goes on up.
 */
static bool
is_of_expression(const ErrorData *error)
{
    int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

    return category == ERRCODE_DATA_EXCEPTION ||
           category == ERRCODE_TO_CATEGORY(ERRCODE_SYNTAX_ERROR) ||
           category == ERRCODE_FEATURE_NOT_SUPPORTED ||
           category == ERRCODE_TO_CATEGORY(ERRCODE_PROGRAM_LIMIT_EXCEEDED) ||
           category == ERRCODE_TO_CATEGORY(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION);
}

/*
 * Within PG_CATCH. No subtransaction is rolled back: what C functions may have
 * left behind goes with the decoded transaction, which always ends in an abort.
 */
static void
swallow_error(MemoryContext context)
{
    ErrorData *error;

    MemoryContextSwitchTo(context);
    error = CopyErrorData();
    if (!is_of_expression(error))
        PG_RE_THROW();
    FlushErrorState();
    ereport(DEBUG1, (errmsg_internal("only_when: %s", error->message)));
    FreeErrorData(error);
}

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

struct condition *
condition_new(const char *stored, const int *map, int map_count, Relation decoded)
{
    MemoryContext context = CurrentMemoryContext;
    struct condition *volatile made = NULL;

    PG_TRY();
    {
        struct condition *condition = palloc0(sizeof(*condition));
        Node *expression = condition_parse_stored(stored, map, map_count, decoded);

        note_columns(condition, expression, decoded, RelationGetIdentityKeyBitmap(decoded));
        condition->slot =
            MakeTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(decoded)), &TTSOpsVirtual);
        condition->context = CreateStandaloneExprContext();
        condition->context->ecxt_scantuple = condition->slot;
        condition->state = ExecInitExpr(expression_planner((Expr *)expression), NULL);
        made = condition;
    }
    PG_CATCH();
    {
        swallow_error(context);
    }
    PG_END_TRY();
    return made;
}

static bool
holds_columns(const struct condition *condition, const struct image *image)
{
    for (int i = 0; i < condition->column_count; i++) {
        int at = condition->columns[i];

        if (!image->whole && !condition->in_key[i])
            return false;
        if (condition->typlens[i] == -1 && !image->nulls[at] &&
            VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(image->values[at])))
            return false;
    }
    return true;
}

enum condition_answer
condition_judge(struct condition *condition, const struct image *image)
{
    MemoryContext context = CurrentMemoryContext;
    TupleTableSlot *slot = condition->slot;
    int natts = slot->tts_tupleDescriptor->natts;
    volatile enum condition_answer answer = CONDITION_FAILED;

    if (!image->present || !holds_columns(condition, image))
        return CONDITION_UNKNOWN;
    ExecClearTuple(slot);
    memcpy(slot->tts_values, image->values, sizeof(Datum) * natts);
    memcpy(slot->tts_isnull, image->nulls, sizeof(bool) * natts);
    ExecStoreVirtualTuple(slot);
    PG_TRY();
    {
        bool is_null;
        Datum value = ExecEvalExpr(condition->state, condition->context, &is_null);

        answer = !is_null && DatumGetBool(value) ? CONDITION_TRUE : CONDITION_FALSE;
    }
    PG_CATCH();
    {
        swallow_error(context);
    }
    PG_END_TRY();
    return answer;
}
