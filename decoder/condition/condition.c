/* condition.c: evaluate only_when on decoded rows. */
#include "condition/condition.h"

#include "access/detoast.h"
#include "access/sysattr.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/data.h"
#include "base/sandbox.h"
#include "condition/bounded_call.h"
#include "condition/parse.h"
#include "condition/prepare.h"
#include "rules/rules.h"

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

/* Outside of decoding all images are whole, so the key is not needed. */
static const Bitmapset *
identity_key(Relation decoded)
{
    return HistoricSnapshotActive() ? RelationGetIdentityKeyBitmap(decoded) : NULL;
}

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
    expression = condition_prepare(expression, build->objects, &build->condition->lasting);
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
    list_columns(condition, expression, decoded, identity_key(decoded));
    condition->plain = condition_is_plain(expression, &condition->weight);
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
