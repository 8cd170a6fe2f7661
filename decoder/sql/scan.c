/*
 * scan.c: read the rows that a live rule addresses to a user: the queries on the table as its
 * owner, and the rows in the form of payload.after.
 */
#include "sql/user_rows.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/portal.h"
#include "utils/syscache.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "base/data.h"
#include "base/sandbox.h"
#include "changes/changes.h"
#include "decoder.h"
#include "encode/encode.h"
#include "output/output.h"
#include "plan/plan.h"

/* The values of the target columns. */

/*
 * The equality operator of the type, or InvalidOid if no condition is possible. For base types and
 * enums, the input function converts a value's text to an equal value. So a condition on the value
 * finds each row with that target.
 */
static Oid
equality_of(Oid type)
{
    char kind = get_typtype(type);

    if (kind != TYPTYPE_ENUM && kind != TYPTYPE_BASE)
        return InvalidOid;
    return lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr;
}

struct input {
    FmgrInfo function;
    Oid io_parameter;
    char *text;
    Datum value;
};

static void
read_value(void *arg)
{
    struct input *input = arg;

    input->value = InputFunctionCall(&input->function, input->text, input->io_parameter, -1);
}

/*
 * Converts the targets to values of the type. Targets that the type rejects are skipped: no row
 * contains them.
 */
static int
read_values(const struct recipient_part *part, Oid type, Datum *ret_values)
{
    struct input input;
    Oid function;
    char *reason;
    int count = 0;

    getTypeInputInfo(type, &function, &input.io_parameter);
    fmgr_info(function, &input.function);
    for (int i = 0; i < part->count; i++) {
        input.text = part->plain[i];
        if (guard_run(read_value, &input, &reason))
            ret_values[count++] = input.value;
    }
    return count;
}

/* Returns false if no condition on the column is possible. */
static bool
target_values(Form_pg_attribute attribute, const struct encoder *encoder,
              const struct recipient_part *part, struct row_values *values)
{
    bool is_array = encoder->element != NULL;
    Oid type = is_array ? get_element_type(encoder->type) : encoder->type;
    Oid equality;

    /* int2vector and oidvector have elements, but are not arrays. */
    if (!OidIsValid(type) || (is_array && get_array_type(type) != encoder->type))
        return false;
    equality = equality_of(type);
    if (!OidIsValid(equality))
        return false;
    *values = (struct row_values){.column = row_column(attribute, encoder->type),
                                  .equality =
                                      is_array ? "OPERATOR(pg_catalog.&&)" : row_operator(equality),
                                  .type = type,
                                  .is_overlap = is_array,
                                  .values = palloc(sizeof(Datum) * Max(part->count, 1))};
    values->count = read_values(part, type, values->values);
    return true;
}

/*
 * Equal values, such as 1.5 and 1.50, would find a row twice with a scan for each, as does a list
 * with a value and its copy.
 */
static void
remove_duplicates(struct row_values *values, Oid collation)
{
    FmgrInfo *equal = &lookup_type_cache(values->type, TYPECACHE_EQ_OPR_FINFO)->eq_opr_finfo;
    int kept = 0;

    if (values->is_overlap || values->count > MERGED_SCANS_MAX || !OidIsValid(equal->fn_oid))
        return;
    for (int i = 0; i < values->count; i++) {
        int j = 0;

        while (j < kept && !DatumGetBool(FunctionCall2Coll(equal, collation, values->values[i],
                                                           values->values[j])))
            j++;
        if (j == kept)
            values->values[kept++] = values->values[i];
    }
    values->count = kept;
}

/* The scan. */

/* Rows per fetch from the cursor. */
#define BATCH_ROWS 100

/* A running scan. */
struct reading {
    struct row_scan *scan;
    struct decoder decoder; /* only the members that plans and rendering use */
    struct plan plan;
    bool is_empty; /* no row can be addressed to the user, or match: skip the query */
    struct row_shape shape;
    bool *picked;
    int column_count; /* columns of the result */
    int *indexes;     /* attribute number - 1 of each result column */
    struct image row;
    MemoryContext row_context; /* reset for each row */
    StringInfoData json;       /* JSON of the last row */
    int row_count;
    int64 bytes;
    int64 seen; /* rows of the running query */
    bool is_done;
    Tuplesortstate *sort;     /* NULL: the queries return the rows in order */
    TupleTableSlot *unsorted; /* the columns of the order, then the JSON */
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
describe_sorted(const struct row_request *request, TupleDesc table)
{
    TupleDesc desc = CreateTemplateTupleDesc(request->order_count + 1);

    for (int i = 0; i < request->order_count; i++)
        TupleDescCopyEntry(desc, i + 1, table, request->order[i].number);
    TupleDescInitEntry(desc, request->order_count + 1, "row", TEXTOID, -1, 0);
    return desc;
}

/*
 * The scan sorts the rows instead of the query, so that it can stop at the row limit and sorts only
 * rows that are addressed to the user.
 */
static void
begin_sort(struct reading *reading)
{
    const struct row_request *request = reading->scan->request;
    TupleDesc desc = describe_sorted(request, RelationGetDescr(reading->scan->relation));
    AttrNumber *columns = palloc(sizeof(AttrNumber) * request->order_count);
    Oid *operators = palloc(sizeof(Oid) * request->order_count);
    Oid *collations = palloc(sizeof(Oid) * request->order_count);
    bool *nulls_first = palloc(sizeof(bool) * request->order_count);

    for (int i = 0; i < request->order_count; i++) {
        const struct order_column *column = &request->order[i];

        columns[i] = i + 1;
        operators[i] =
            column->type
                .operators[column->is_descending ? BTGreaterStrategyNumber : BTLessStrategyNumber];
        collations[i] = column->collation;
        nulls_first[i] = column->is_descending;
    }
    reading->unsorted = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
    reading->sorted = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
    reading->sort = tuplesort_begin_heap(
        desc, request->order_count, columns, operators, collations, nulls_first, work_mem, NULL,
        request->has_limit ? TUPLESORT_ALLOWBOUNDED : TUPLESORT_NONE);
    if (request->has_limit)
        tuplesort_set_bound(reading->sort, (int64)request->limit - reading->row_count + 1);
}

/* A count needs only the columns that decide whether a row is addressed to the user. */
static bool
needs_column(const struct reading *reading, AttrNumber number)
{
    const struct rule *rule = reading->scan->rule;

    if (!reading->scan->request->is_count)
        return true;
    for (int i = 0; i < reading->plan.part_count; i++)
        if (reading->plan.parts[i].column.index == number - 1)
            return true;
    for (int i = 0; rule->only_when != NULL && i < rule->origin_count; i++)
        if (rule->numbers[i] == number)
            return true;
    return false;
}

static void
pick_columns(struct reading *reading)
{
    TupleDesc desc = RelationGetDescr(reading->scan->relation);

    reading->picked = palloc0(sizeof(bool) * Max(desc->natts, 1));
    reading->indexes = palloc(sizeof(int) * Max(desc->natts, 1));
    for (int i = 0; i < desc->natts; i++) {
        if (!plan_can_read(TupleDescAttr(desc, i)) || !needs_column(reading, i + 1))
            continue;
        reading->picked[i] = true;
        reading->indexes[reading->column_count++] = i;
    }
}

static void
add_values(struct reading *reading, Form_pg_attribute attribute, struct row_values values)
{
    remove_duplicates(&values, attribute->attcollation);
    if (values.count == 0 && !values.or_null)
        reading->is_empty = true;
    reading->shape.values[reading->shape.value_count++] = values;
}

/*
 * The query finds at least the rows that the rule addresses to the user, by conditions on target
 * columns that an index can serve. The scan checks the targets of each row.
 */
static void
restrict_columns(struct reading *reading)
{
    const struct row_request *request = reading->scan->request;
    TupleDesc desc = RelationGetDescr(reading->scan->relation);
    struct row_values values;

    reading->shape.values =
        palloc(sizeof(values) * (reading->plan.part_count + request->condition_count + 1));
    for (int i = 0; i < reading->plan.part_count; i++) {
        const struct bound_column *column = &reading->plan.parts[i].column;

        if (column->index >= 0 && target_values(TupleDescAttr(desc, column->index), column->encoder,
                                                &reading->scan->recipient->parts[i], &values))
            add_values(reading, TupleDescAttr(desc, column->index), values);
    }
    for (int i = 0; i < request->condition_count; i++) {
        const struct row_condition *condition = &request->conditions[i];
        Form_pg_attribute attribute = TupleDescAttr(desc, condition->number - 1);

        if (!condition->is_range)
            add_values(reading, attribute,
                       (struct row_values){.column = row_column(attribute, condition->type.type),
                                           .equality = row_operator(
                                               condition->type.operators[BTEqualStrategyNumber]),
                                           .type = condition->type.type,
                                           .or_null = condition->or_null,
                                           .count = condition->given_count,
                                           .values = condition->values});
    }
}

static void
set_up(struct reading *reading)
{
    struct row_scan *scan = reading->scan;
    int natts = Max(RelationGetDescr(scan->relation)->natts, 1);

    set_up_decoder(&reading->decoder);
    plan_live(&reading->decoder, &reading->plan, scan->rule, scan->relation);
    reading->row.values = palloc0(sizeof(Datum) * natts);
    reading->row.nulls = palloc(sizeof(bool) * natts);
    memset(reading->row.nulls, true, sizeof(bool) * natts);
    reading->row.present = true;
    reading->row.whole = true;
    reading->row_context =
        AllocSetContextCreate(CurrentMemoryContext, "clairon row", ALLOCSET_DEFAULT_SIZES);
    initStringInfo(&reading->json);
    if (!row_request_convert(scan->request))
        return;
    reading->is_empty = audience_is_denied(&reading->decoder, &reading->plan);
    if (!reading->is_empty)
        restrict_columns(reading);
    pick_columns(reading);
    reading->shape.relation = scan->relation;
    reading->shape.request = scan->request;
    reading->shape.picked = reading->picked;
    reading->shape.is_ordered = scan->request->has_limit;
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
    for (int i = 0; i < reading->column_count; i++) {
        int index = reading->indexes[i];

        if (!nulls[i] && TupleDescAttr(table, index)->attlen == -1 &&
            VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(values[i])))
            values[i] = hide_disk_pointer(values[i]);
        reading->row.values[index] = values[i];
        reading->row.nulls[index] = nulls[i];
    }
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

/* The row's value of a column of the order, not TOASTed. */
static Datum
order_value(const struct reading *reading, const struct order_column *column, bool *ret_is_null)
{
    int index = column->number - 1;
    Datum value = reading->row.values[index];

    *ret_is_null = reading->row.nulls[index];
    if (!*ret_is_null &&
        TupleDescAttr(RelationGetDescr(reading->scan->relation), index)->attlen == -1)
        value = PointerGetDatum(PG_DETOAST_DATUM(value));
    return value;
}

static void
sort_row(struct reading *reading, struct fragment row)
{
    const struct row_request *request = reading->scan->request;
    TupleTableSlot *slot = reading->unsorted;

    if (!request->has_limit)
        count_row(reading, row.len);
    for (int i = 0; i < request->order_count; i++)
        slot->tts_values[i] = order_value(reading, &request->order[i], &slot->tts_isnull[i]);
    slot->tts_values[request->order_count] =
        PointerGetDatum(cstring_to_text_with_len(row.bytes, row.len));
    slot->tts_isnull[request->order_count] = false;
    ExecStoreVirtualTuple(slot);
    tuplesort_puttupleslot(reading->sort, slot);
    ExecClearTuple(slot);
}

/* The first row is always returned: otherwise a client would never get past it. */
static void
put_limited(struct reading *reading, struct fragment row)
{
    struct row_scan *scan = reading->scan;

    if (reading->row_count == scan->request->limit ||
        (reading->row_count > 0 && reading->bytes + row.len > scan->max_bytes)) {
        scan->is_rest = true;
        reading->is_done = true;
        return;
    }
    reading->row_count++;
    reading->bytes += row.len;
    scan->put(scan->arg, row);
}

static void
read_row(struct reading *reading, HeapTuple tuple, TupleDesc desc)
{
    struct fragment row;

    load_row(reading, tuple, desc);
    if (!recipient_may_read_row(reading->scan->recipient, &reading->decoder, &reading->plan,
                                &reading->row))
        return;
    if (reading->scan->request->is_count) {
        reading->scan->count++;
        return;
    }
    row = notification_render_row(&reading->decoder, &reading->json, &reading->plan, &reading->row);
    if (reading->sort != NULL)
        sort_row(reading, row);
    else
        put_limited(reading, row);
}

/* The next query begins behind the last row. */
static void
continue_after(struct reading *reading)
{
    struct row_request *request = reading->scan->request;
    TupleDesc desc = RelationGetDescr(reading->scan->relation);
    MemoryContext row_context = MemoryContextSwitchTo(reading->decoder.context);

    request->has_after = true;
    for (int i = 0; i < request->order_count; i++) {
        struct order_column *column = &request->order[i];
        Form_pg_attribute attribute = TupleDescAttr(desc, column->number - 1);

        column->after = order_value(reading, column, &column->is_null);
        if (!column->is_null)
            column->after = datumCopy(column->after, attribute->attbyval, attribute->attlen);
    }
    MemoryContextSwitchTo(row_context);
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

/* An error, such as a timeout, frees a new statement. An earlier one is kept. */
static Portal
open_statement(struct reading *reading, const struct row_query *query)
{
    const struct row_scan *scan = reading->scan;
    const Oid relid = RelationGetRelid(scan->relation);
    struct row_statement *statement;
    SPIPlanPtr plan = row_statement_acquire(query, relid, &statement);
    Portal portal;

    PG_TRY();
    {
        check_relation(plan, scan->relation);
        tree_check_again(scan->relation, scan->tree);
        portal = SPI_cursor_open(NULL, plan, query->values, NULL, true);
    }
    PG_CATCH();
    {
        if (statement != NULL)
            row_statement_release(query, relid, plan, statement);
        PG_RE_THROW();
    }
    PG_END_TRY();
    row_statement_release(query, relid, plan, statement);
    return portal;
}

/*
 * Plans the query, for its parameters. The planner may run code of the owner; settings that it
 * changes are reverted before values are read. The executor does not run such code, since the query
 * has only operators on columns.
 */
static Portal
open_cursor(struct reading *reading, const struct row_piece *piece)
{
    const struct row_scan *scan = reading->scan;
    struct row_query query;
    int level = NewGUCNestLevel();
    Portal portal;

    row_query_build(&query, &reading->shape, piece);
    portal = open_statement(reading, &query);
    tree_check_plan(scan->relation, scan->tree, linitial_node(PlannedStmt, portal->stmts));
    AtEOXact_GUC(false, level);
    return portal;
}

static double
cost_of(Portal portal)
{
    return linitial_node(PlannedStmt, portal->stmts)->planTree->total_cost;
}

/*
 * A scan for each value is much better with an index on the columns of the order behind those of
 * the values, and much worse without an index. The planner knows.
 */
static Portal
open_cheaper(struct reading *reading, const struct row_piece *piece)
{
    Portal merged;
    Portal whole;

    row_shape_join(&reading->shape);
    if (!reading->shape.is_ordered || !row_shape_merge(&reading->shape))
        return open_cursor(reading, piece);
    merged = open_cursor(reading, piece);
    row_shape_join(&reading->shape);
    whole = open_cursor(reading, piece);
    if (cost_of(whole) <= cost_of(merged)) {
        SPI_cursor_close(merged);
        return whole;
    }
    SPI_cursor_close(whole);
    (void)row_shape_merge(&reading->shape);
    return merged;
}

static void
run_query(struct reading *reading, const struct row_piece *piece)
{
    Portal portal = open_cheaper(reading, piece);
    uint64 count;

    reading->seen = 0;
    do {
        SPITupleTable *batch;
        MemoryContext old;

        CHECK_FOR_INTERRUPTS();
        SPI_cursor_fetch(portal, true, BATCH_ROWS);
        batch = SPI_tuptable;
        count = SPI_processed;
        old = MemoryContextSwitchTo(reading->row_context);
        for (uint64 i = 0; i < count && !reading->is_done; i++) {
            read_row(reading, batch->vals[i], batch->tupdesc);
            if (++reading->seen == reading->shape.limit && !reading->is_done)
                continue_after(reading);
            MemoryContextReset(reading->row_context);
        }
        MemoryContextSwitchTo(old);
        SPI_freetuptable(batch);
    } while (count > 0 && !reading->is_done);
    SPI_cursor_close(portal);
}

/* Each query reads more rows, since few of those of the last one are addressed to the user. */
#define LIMIT_GROWTH 16
#define LIMITED_QUERIES 3

/*
 * Runs a query for each range of the order until the list is long enough. The planner must know how
 * many rows are read: so the query has a limit, and the rows that are not addressed to the user
 * make further queries necessary. Returns false when too few of the rows are: without an index,
 * each query would sort the table.
 */
static bool
run_limited(struct reading *reading)
{
    int64 limit = (int64)reading->scan->request->limit + 1;
    bool is_cut = true;

    for (int round = 0; round < LIMITED_QUERIES && is_cut && !reading->is_done; round++) {
        int count;
        struct row_piece *pieces = row_pieces(reading->scan->request, &count);

        is_cut = false;
        for (int i = 0; i < count && !reading->is_done && !is_cut; i++) {
            reading->shape.limit = Max(limit - reading->row_count, 1);
            run_query(reading, &pieces[i]);
            is_cut = reading->seen == reading->shape.limit;
        }
        limit *= LIMIT_GROWTH;
    }
    return reading->is_done || !is_cut;
}

static void
put_sorted(struct reading *reading)
{
    const struct row_scan *scan = reading->scan;
    int column = scan->request->order_count + 1;

    tuplesort_performsort(reading->sort);
    while (!reading->is_done &&
           tuplesort_gettupleslot(reading->sort, true, false, reading->sorted, NULL)) {
        bool is_null;
        text *value = DatumGetTextPP(slot_getattr(reading->sorted, column, &is_null));
        struct fragment row = {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};

        if (scan->request->has_limit)
            put_limited(reading, row);
        else
            scan->put(scan->arg, row);
    }
    tuplesort_end(reading->sort);
    ExecDropSingleTupleTableSlot(reading->sorted);
    ExecDropSingleTupleTableSlot(reading->unsorted);
}

static void
run_whole(struct reading *reading)
{
    int count;
    struct row_piece *pieces = row_pieces(reading->scan->request, &count);

    reading->shape.is_ordered = false;
    reading->shape.limit = 0;
    if (!reading->scan->request->is_count)
        begin_sort(reading);
    for (int i = 0; i < count; i++)
        run_query(reading, &pieces[i]);
    if (!reading->scan->request->is_count)
        put_sorted(reading);
}

static void
run(struct reading *reading)
{
    if (reading->is_empty || (reading->scan->request->has_limit && run_limited(reading)))
        return;
    run_whole(reading);
}

/*
 * A rule bypasses row-level security, even FORCE. An error restores user and XactReadOnly with its
 * transaction or subtransaction.
 */
static void
run_as_owner(struct reading *reading, void (*work)(struct reading *reading))
{
    bool read_only = XactReadOnly;
    Oid caller;
    int security;

    GetUserIdAndSecContext(&caller, &security);
    SetUserIdAndSecContext(reading->scan->relation->rd_rel->relowner,
                           security | SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
    XactReadOnly = true;
    work(reading);
    XactReadOnly = read_only;
    SetUserIdAndSecContext(caller, security);
}

struct reading *
row_scan_begin(struct row_scan *scan)
{
    struct reading *reading = palloc0(sizeof(*reading));

    reading->scan = scan;
    run_as_owner(reading, set_up);
    return scan->request->fault == 0 ? reading : NULL;
}

void
row_scan_run(struct reading *reading)
{
    run_as_owner(reading, run);
}
