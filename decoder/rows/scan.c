/* scan.c: read the rows that a live rule addresses to a user. */
#include "rows/scan.h"

#include "access/detoast.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/portal.h"
#include "utils/tuplesort.h"

#include "base/data.h"
#include "base/sandbox.h"
#include "changes/changes.h"
#include "decoder.h"
#include "output/output.h"
#include "plan/plan.h"
#include "rows/query.h"
#include "rows/tree.h"

/* Rows per fetch from the cursor. */
#define BATCH_ROWS 100

/* A running scan. */
struct reading {
    const struct row_scan *scan;
    struct decoder decoder; /* only the members that plans and rendering use */
    struct plan plan;
    struct row_query query;
    struct image row;
    MemoryContext row_context; /* reset for each row */
    StringInfoData json;       /* JSON of the last row */
    int row_count;
    int64 bytes;
    Tuplesortstate *sort;
    TupleTableSlot *unsorted; /* the columns of the key, then the JSON */
    TupleTableSlot *sorted;
};

/* All options have their defaults, as in a relay's slot. */
static void
set_up_decoder(struct decoder *decoder)
{
    decoder->context = CurrentMemoryContext;
    options_read(&decoder->options, NIL, "");
    decoder->settings.ascii = GetDatabaseEncoding() != PG_UTF8;
    decoder->settings.numeric_as_number = decoder->options.numeric_as_number;
    decoder->settings.limit = PG_INT32_MAX;
    decoder->accounts = accounts_new(&decoder->options.owner);
    decoder->sandbox = sandbox_new(decoder->options.condition_timeout_ms, decoder->accounts);
    warning_setup(decoder);
}

static TupleDesc
describe_sorted(const struct row_key *key, TupleDesc table)
{
    TupleDesc desc = CreateTemplateTupleDesc(key->count + 1);

    for (int i = 0; i < key->count; i++)
        TupleDescCopyEntry(desc, i + 1, table, key->numbers[i]);
    TupleDescInitEntry(desc, key->count + 1, "row", TEXTOID, -1, 0);
    return desc;
}

/*
 * The scan sorts the rows instead of the query, so that it can stop at the row limit and sorts only
 * rows that are addressed to the user.
 */
static void
begin_sort(struct reading *reading)
{
    const struct row_key *key = reading->scan->key;
    TupleDesc desc = describe_sorted(key, RelationGetDescr(reading->scan->relation));
    AttrNumber columns[INDEX_MAX_KEYS];
    bool nulls_first[INDEX_MAX_KEYS] = {false};

    for (int i = 0; i < key->count; i++)
        columns[i] = i + 1;
    reading->unsorted = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
    reading->sorted = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
    reading->sort =
        tuplesort_begin_heap(desc, key->count, columns, (Oid *)key->less_than,
                             (Oid *)key->collations, nulls_first, work_mem, NULL, TUPLESORT_NONE);
}

static void
set_up(struct reading *reading)
{
    int natts = Max(RelationGetDescr(reading->scan->relation)->natts, 1);

    set_up_decoder(&reading->decoder);
    plan_live(&reading->decoder, &reading->plan, reading->scan->rule, reading->scan->relation);
    reading->row.values = palloc0(sizeof(Datum) * natts);
    reading->row.nulls = palloc(sizeof(bool) * natts);
    memset(reading->row.nulls, true, sizeof(bool) * natts);
    reading->row.present = true;
    reading->row.whole = true;
    reading->row_context =
        AllocSetContextCreate(CurrentMemoryContext, "clairon row", ALLOCSET_DEFAULT_SIZES);
    initStringInfo(&reading->json);
    begin_sort(reading);
}

/*
 * Wraps an on-disk pointer in an indirect pointer, as in decoded rows. A bare on-disk pointer would
 * mean that the value is not in the WAL.
 */
static Datum
hide_disk_pointer(Datum value)
{
    struct varatt_indirect indirect = {.pointer = (struct varlena *)DatumGetPointer(value)};
    char *pointer = palloc(INDIRECT_POINTER_SIZE);

    SET_VARTAG_EXTERNAL(pointer, VARTAG_INDIRECT);
    memcpy(VARDATA_EXTERNAL(pointer), &indirect, sizeof(indirect));
    return PointerGetDatum(pointer);
}

static void
load_row(struct reading *reading, HeapTuple tuple, TupleDesc desc)
{
    TupleDesc table = RelationGetDescr(reading->scan->relation);
    Datum *values = palloc(sizeof(Datum) * Max(desc->natts, 1));
    bool *nulls = palloc(sizeof(bool) * Max(desc->natts, 1));

    heap_deform_tuple(tuple, desc, values, nulls);
    for (int i = 0; i < reading->query.column_count; i++) {
        int index = reading->query.indexes[i];

        if (!nulls[i] && TupleDescAttr(table, index)->attlen == -1 &&
            VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(values[i])))
            values[i] = hide_disk_pointer(values[i]);
        reading->row.values[index] = values[i];
        reading->row.nulls[index] = nulls[i];
    }
}

/* Checks the targets first: only_when may be slow, and must warn only about the user's rows. */
static bool
is_addressed(struct reading *reading)
{
    struct decoder *decoder = &reading->decoder;
    const struct plan *plan = &reading->plan;
    struct target_list *targets;
    bool too_many;
    bool met = true;

    if (plan->target_state == TARGET_COLUMNS &&
        !(audience_read_targets(decoder, plan, &reading->row, &targets, &too_many) &&
          recipient_is_addressed(reading->scan->recipient, targets)))
        return false;
    return plan->condition == NULL ||
           (audience_meets_condition(decoder, plan, &reading->row, &met) && met);
}

static _Noreturn void
raise_too_many(const struct reading *reading, int64 max, const char *unit)
{
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("%s addresses more than %lld %s to the user", reading->plan.label,
                           (long long)max, unit)));
}

static void
count_row(struct reading *reading, int len)
{
    const struct row_scan *scan = reading->scan;

    reading->row_count++;
    reading->bytes += len;
    if (reading->row_count > scan->max_rows)
        raise_too_many(reading, scan->max_rows, "rows");
    if (reading->bytes > scan->max_bytes)
        raise_too_many(reading, scan->max_bytes, "bytes");
}

static void
sort_row(struct reading *reading, struct fragment row)
{
    const struct row_key *key = reading->scan->key;
    TupleTableSlot *slot = reading->unsorted;

    for (int i = 0; i < key->count; i++) {
        int index = key->numbers[i] - 1;
        Datum value = reading->row.values[index];

        slot->tts_isnull[i] = reading->row.nulls[index];
        if (!slot->tts_isnull[i] && TupleDescAttr(slot->tts_tupleDescriptor, i)->attlen == -1)
            value = PointerGetDatum(PG_DETOAST_DATUM(value));
        slot->tts_values[i] = value;
    }
    slot->tts_values[key->count] = PointerGetDatum(cstring_to_text_with_len(row.bytes, row.len));
    slot->tts_isnull[key->count] = false;
    ExecStoreVirtualTuple(slot);
    tuplesort_puttupleslot(reading->sort, slot);
    ExecClearTuple(slot);
}

static void
read_row(struct reading *reading, HeapTuple tuple, TupleDesc desc)
{
    struct fragment row;

    load_row(reading, tuple, desc);
    if (!is_addressed(reading))
        return;
    row = notification_render_row(&reading->decoder, &reading->json, &reading->plan, &reading->row);
    count_row(reading, row.len);
    sort_row(reading, row);
}

/* The lock on the table does not prevent a rename of its schema, whose name may then be reused. */
static void
check_relation(SPIPlanPtr statement, Relation relation)
{
    CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(statement));

    if (!list_member_oid(source->relationOids, RelationGetRelid(relation)))
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("the schema of relation \"%s\" was renamed concurrently",
                               RelationGetRelationName(relation))));
}

/*
 * Plans the query. The planner may run code of the owner; settings that it changes are reverted
 * before values are read. The executor does not run such code, since the query has only operators
 * on columns.
 */
static Portal
open_cursor(struct reading *reading)
{
    const struct row_scan *scan = reading->scan;
    struct row_query *query = &reading->query;
    int level = NewGUCNestLevel();
    SPIPlanPtr statement = SPI_prepare(query->text.data, query->parameter_count, query->types);
    Portal portal;

    if (statement == NULL)
        elog(ERROR, "could not prepare query: %s", SPI_result_code_string(SPI_result));
    check_relation(statement, scan->relation);
    tree_check_again(scan->relation, scan->tree);
    portal = SPI_cursor_open(NULL, statement, query->values, NULL, true);
    tree_check_plan(scan->relation, scan->tree, linitial_node(PlannedStmt, portal->stmts));
    AtEOXact_GUC(false, level);
    return portal;
}

static void
run_query(struct reading *reading)
{
    Portal portal = open_cursor(reading);
    uint64 count;

    do {
        SPITupleTable *batch;
        MemoryContext old;

        CHECK_FOR_INTERRUPTS();
        SPI_cursor_fetch(portal, true, BATCH_ROWS);
        batch = SPI_tuptable;
        count = SPI_processed;
        old = MemoryContextSwitchTo(reading->row_context);
        for (uint64 i = 0; i < count; i++) {
            read_row(reading, batch->vals[i], batch->tupdesc);
            MemoryContextReset(reading->row_context);
        }
        MemoryContextSwitchTo(old);
        SPI_freetuptable(batch);
    } while (count > 0);
    SPI_cursor_close(portal);
}

static void
put_sorted(struct reading *reading)
{
    const struct row_scan *scan = reading->scan;

    tuplesort_performsort(reading->sort);
    while (tuplesort_gettupleslot(reading->sort, true, false, reading->sorted, NULL)) {
        bool is_null;
        text *row = DatumGetTextPP(slot_getattr(reading->sorted, scan->key->count + 1, &is_null));

        scan->put(scan->arg, (struct fragment){VARDATA_ANY(row), VARSIZE_ANY_EXHDR(row)});
    }
    tuplesort_end(reading->sort);
    ExecDropSingleTupleTableSlot(reading->sorted);
    ExecDropSingleTupleTableSlot(reading->unsorted);
}

static void
run_as_owner(const struct row_scan *scan)
{
    struct reading *reading = palloc0(sizeof(*reading));

    reading->scan = scan;
    set_up(reading);
    if (audience_is_denied(&reading->decoder, &reading->plan))
        return;
    row_query_build(&reading->query, scan->relation, &reading->plan, scan->recipient);
    if (!reading->query.is_empty)
        run_query(reading);
    put_sorted(reading);
}

/*
 * A rule bypasses row-level security, even FORCE. An error restores user and XactReadOnly with its
 * transaction or subtransaction.
 */
void
row_scan_run(const struct row_scan *scan)
{
    bool read_only = XactReadOnly;
    Oid caller;
    int security;

    GetUserIdAndSecContext(&caller, &security);
    SetUserIdAndSecContext(scan->relation->rd_rel->relowner,
                           security | SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
    XactReadOnly = true;
    run_as_owner(scan);
    XactReadOnly = read_only;
    SetUserIdAndSecContext(caller, security);
}
