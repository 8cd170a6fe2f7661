/*
 * scan.c: read the rows that a live rule addresses to a user: the targets of this user, the query
 * on the table as its owner, and the rows in the form of payload.after.
 */
#include "sql/rows.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/array.h"
#include "utils/builtins.h"
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

/* Collects the targets of each part, as lists of strings in the server's encoding. */
struct collected {
    int part_count;
    char *kinds[LIMIT_PARTS];
    List *targets[LIMIT_PARTS];
};

static int
compare_fragments(const void *a, const void *b)
{
    const struct fragment *left = a;
    const struct fragment *right = b;
    int order = memcmp(left->bytes, right->bytes, Min(left->len, right->len));

    return order != 0 ? order : left->len - right->len;
}

/* Splits STRUCTURE+ROLE. Audiences are ASCII. */
static void
split_audience(struct collected *collected, const char *audience)
{
    char *at = pstrdup(audience);

    while (at != NULL && collected->part_count < LIMIT_PARTS) {
        char *plus = strchr(at, '+');

        if (plus != NULL)
            *plus = '\0';
        collected->kinds[collected->part_count++] = at;
        at = plus == NULL ? NULL : plus + 1;
    }
}

static void
collect_members(struct collected *collected, int part, const char *user_id)
{
    Oid types[] = {TEXTOID, TEXTOID};
    Datum values[] = {CStringGetTextDatum(collected->kinds[part]), CStringGetTextDatum(user_id)};

    if (SPI_execute_with_args("SELECT target FROM clairon.member"
                              " WHERE user_id OPERATOR(pg_catalog.=) $2"
                              " AND audience OPERATOR(pg_catalog.=) $1",
                              lengthof(types), types, values, NULL, true, 0) != SPI_OK_SELECT)
        elog(ERROR, "could not read clairon.member");
    for (uint64 i = 0; i < SPI_processed; i++)
        collected->targets[part] =
            lappend(collected->targets[part],
                    SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1));
    SPI_freetuptable(SPI_tuptable);
}

static void
collect_group(struct collected *collected, const JsonbValue *kind, const JsonbValue *target)
{
    for (int i = 0; i < collected->part_count; i++)
        if (kind->val.string.len == (int)strlen(collected->kinds[i]) &&
            memcmp(kind->val.string.val, collected->kinds[i], kind->val.string.len) == 0)
            collected->targets[i] = lappend(
                collected->targets[i], pnstrdup(target->val.string.val, target->val.string.len));
}

/* Groups of other kinds are ignored, even one named like a composite audience. */
static void
collect_groups(struct collected *collected, Jsonb *groups)
{
    JsonbIterator *iterator = JsonbIteratorInit(&groups->root);
    JsonbValue kind = {0};
    JsonbValue item;
    JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
    bool in_array = false;
    bool valid = token == WJB_BEGIN_OBJECT;

    while (valid && (token = JsonbIteratorNext(&iterator, &item, false)) != WJB_DONE) {
        switch (token) {
        case WJB_KEY:
            kind = item;
            break;
        case WJB_BEGIN_ARRAY:
            valid = !in_array;
            in_array = true;
            break;
        case WJB_ELEM:
            valid = item.type == jbvString;
            if (valid)
                collect_group(collected, &kind, &item);
            break;
        case WJB_END_ARRAY:
            in_array = false;
            break;
        default:
            valid = token == WJB_END_OBJECT;
        }
    }
    if (!valid)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid value for parameter \"groups\""),
                        errhint("The value must be an object of arrays of strings, such as "
                                "{\"STRUCTURE\": [\"s1\"]}.")));
}

static void
sort_targets(struct recipient_part *part, const List *targets)
{
    ListCell *cell;

    part->plain = palloc(sizeof(char *) * Max(list_length(targets), 1));
    part->texts = palloc(sizeof(struct fragment) * Max(list_length(targets), 1));
    foreach (cell, targets) {
        char *plain = lfirst(cell);
        struct fragment *text = &part->texts[part->count];

        part->plain[part->count++] = plain;
        text->bytes = encode_to_utf8(plain, strlen(plain), &text->len);
    }
    qsort(part->texts, part->count, sizeof(struct fragment), compare_fragments);
}

void
recipient_load(struct recipient *recipient, const struct rule *rule, const char *user_id,
               Jsonb *groups)
{
    bool to_user = strcmp(rule->audience, "USER") == 0;
    struct collected collected = {0};

    *recipient = (struct recipient){0};
    if (!to_user && !rule->to_all) {
        split_audience(&collected, rule->audience);
        for (int i = 0; i < collected.part_count; i++)
            collect_members(&collected, i, user_id);
    }
    collect_groups(&collected, groups);
    if (to_user) { /* replaces any groups with this kind's name */
        collected.part_count = 1;
        collected.kinds[0] = "";
        collected.targets[0] = list_make1(pstrdup(user_id));
    }
    recipient->part_count = collected.part_count;
    for (int i = 0; i < collected.part_count; i++) {
        recipient->parts[i].kind = collected.kinds[i];
        sort_targets(&recipient->parts[i], collected.targets[i]);
    }
}

static bool
part_contains(const struct recipient_part *part, const char *text, int len)
{
    struct fragment wanted = {text, len};

    return bsearch(&wanted, part->texts, part->count, sizeof(wanted), compare_fragments) != NULL;
}

/* Copies a part of a composite target, unescaped. Returns the end of the part. */
static const char *
copy_part(const char *at, const char *end, char *ret_part, int *ret_len)
{
    int len = 0;

    for (; at < end && *at != '+'; at++) {
        if (*at == '\\' && at + 1 < end)
            at++;
        ret_part[len++] = *at;
    }
    *ret_len = len;
    return at;
}

/* True when the user belongs to each part of the target. */
static bool
belongs_to(const struct recipient *recipient, const char *text, int len)
{
    const char *at = text;
    const char *end = text + len;
    char *part;

    if (recipient->part_count == 1)
        return part_contains(&recipient->parts[0], text, len);
    part = palloc(len + 1);
    for (int i = 0; i < recipient->part_count; i++) {
        int part_len;

        at = copy_part(at, end, part, &part_len);
        if (!part_contains(&recipient->parts[i], part, part_len))
            return false;
        if (i + 1 < recipient->part_count && at++ == end)
            return false;
    }
    return at == end;
}

bool
recipient_is_addressed(const struct recipient *recipient, const struct target_list *targets)
{
    if (recipient->part_count == 0)
        return true;
    for (int i = 0; i < targets->count; i++)
        if (belongs_to(recipient, targets->texts[i], targets->lengths[i]))
            return true;
    return false;
}

/* The query for the rows that a live rule may address to a user. */
struct row_query {
    StringInfoData text;
    int parameter_count;
    Oid types[LIMIT_PARTS];
    Datum values[LIMIT_PARTS];
    int column_count; /* columns of the result */
    int *indexes;     /* attribute number - 1 of each result column */
    bool is_empty;    /* no row can be addressed to the user: skip the query */
};

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

static void
add_parameter(struct row_query *query, Oid type, Datum value)
{
    query->types[query->parameter_count] = type;
    query->values[query->parameter_count++] = value;
}

static void
add_array(struct row_query *query, Oid element, Datum *values, int count)
{
    int16 typlen;
    bool typbyval;
    char typalign;

    get_typlenbyvalalign(element, &typlen, &typbyval, &typalign);
    add_parameter(
        query, get_array_type(element),
        PointerGetDatum(construct_array(values, count, element, typlen, typbyval, typalign)));
}

static const char *
qualified_operator(Oid operator)
{
    HeapTuple tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator));
    Form_pg_operator form;
    char *text;

    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator %u", operator);
    form = (Form_pg_operator)GETSTRUCT(tuple);
    text = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
                    NameStr(form->oprname));
    ReleaseSysCache(tuple);
    return text;
}

/*
 * The column cast to its base type: polymorphic operators, such as enum operators, reject domains.
 * Without a type modifier the cast changes no value and an index still serves the condition.
 */
static const char *
column_expression(Form_pg_attribute attribute, Oid base)
{
    const char *column = quote_identifier(NameStr(attribute->attname));

    if (attribute->atttypid == base)
        return psprintf("t.%s", column);
    return psprintf(
        "t.%s::%s", column,
        format_type_extended(base, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
}

/* Indexes serve a single value better than an array. */
static void
put_condition(struct row_query *query, const char *column, const char *operator, bool is_array,
              Oid type, Datum *values, int count)
{
    bool is_list = !is_array && count > 1;

    if (is_array || is_list)
        add_array(query, type, values, count);
    else
        add_parameter(query, type, values[0]);
    appendStringInfo(&query->text, " %s %s %s %s($%d)",
                     query->parameter_count == 1 ? "WHERE" : "AND", column, operator,
                     is_list ? "ANY " : "", query->parameter_count);
}

static void
restrict_column(struct row_query *query, Form_pg_attribute attribute, const struct encoder *encoder,
                const struct recipient_part *part)
{
    bool is_array = encoder->element != NULL;
    Oid type = is_array ? get_element_type(encoder->type) : encoder->type;
    Oid equality;
    Datum *values;
    int count;

    /* int2vector and oidvector have elements, but are not arrays. */
    if (!OidIsValid(type) || (is_array && get_array_type(type) != encoder->type))
        return;
    equality = equality_of(type);
    if (!OidIsValid(equality))
        return;
    values = palloc(sizeof(Datum) * Max(part->count, 1));
    count = read_values(part, type, values);
    if (count == 0)
        query->is_empty = true;
    else
        put_condition(query, column_expression(attribute, encoder->type),
                      is_array ? "OPERATOR(pg_catalog.&&)" : qualified_operator(equality), is_array,
                      type, values, count);
}

static void
put_columns(struct row_query *query, TupleDesc desc)
{
    query->indexes = palloc(sizeof(int) * Max(desc->natts, 1));
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);

        if (!plan_can_read(attribute))
            continue;
        appendStringInfo(&query->text, "%st.%s", query->column_count > 0 ? ", " : "",
                         quote_identifier(NameStr(attribute->attname)));
        query->indexes[query->column_count++] = i;
    }
}

/*
 * Writes a SELECT of all columns, in the current memory context. It finds at least the rows that
 * the rule addresses to the user, by conditions on target columns that an index can serve. The
 * caller checks the targets of each row. Calls input functions of types: call it as the table's
 * owner, with the settings of the decoder.
 */
static void
row_query_build(struct row_query *query, Relation relation, const struct plan *plan,
                const struct recipient *recipient)
{
    TupleDesc desc = RelationGetDescr(relation);
    char *schema = get_namespace_name(RelationGetNamespace(relation));

    *query = (struct row_query){0};
    initStringInfo(&query->text);
    appendStringInfoString(&query->text, "SELECT ");
    put_columns(query, desc);
    appendStringInfo(&query->text, " FROM %s AS t",
                     quote_qualified_identifier(schema, RelationGetRelationName(relation)));
    for (int i = 0; i < plan->part_count; i++) {
        const struct bound_column *column = &plan->parts[i].column;

        if (column->index >= 0)
            restrict_column(query, TupleDescAttr(desc, column->index), column->encoder,
                            &recipient->parts[i]);
    }
}

/* The scan. */

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
