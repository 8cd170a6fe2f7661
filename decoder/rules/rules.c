/*
 * rules.c: read the rules as of a WAL position.
 *
 * The historic snapshot determines which rules apply to a change. It stays the same object until a
 * transaction that wrote catalogs, or a user catalog table such as clairon.rule, commits or starts
 * a new command. So rules that were read under one snapshot apply to all changes under an equal
 * snapshot. Each DDL command creates a new snapshot, but few change a rule: struct rule_writes
 * determines the relations whose rules may differ. Only those are read again, one relation at a
 * time, when a row of it changes. Invalidations do not matter: a transaction may be decoded after
 * one that committed later, in a snapshot from before. A rule depends only on the bytes of its row.
 */
#include "rules/rules.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/data.h"
#include "encode/encode.h"
#include "protocol/limits.h"

void
digest_add(struct digest *digest, const void *bytes, Size len)
{
    static uint64 seeds[2];

    while (seeds[0] == 0 && !pg_strong_random(seeds, sizeof(seeds)))
        CHECK_FOR_INTERRUPTS();
    for (int i = 0; i < 2; i++)
        digest->halves[i] = hash_bytes_extended(bytes, (int)len, seeds[i] ^ digest->halves[i]);
}

/* Returns the index of the first write that is not before these values. */
static int
find_write(const struct rule_writes *writes, TransactionId xid, Oid relid)
{
    int low = 0;
    int high = writes->count;

    while (low < high) {
        int middle = low + (high - low) / 2;

        const struct rule_write *write = &writes->writes[middle];

        if (write->xid != xid ? write->xid < xid : write->relid < relid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void
rule_writes_add(struct rule_writes *writes, TransactionId xid, Oid relid)
{
    int at = find_write(writes, xid, relid);

    if (!TransactionIdIsNormal(xid) || TransactionIdPrecedes(xid, writes->horizon))
        return;
    if (at < writes->count && writes->writes[at].xid == xid && writes->writes[at].relid == relid)
        return;
    if (writes->count == writes->room) {
        int room = Max(2 * writes->room, 64);

        writes->writes =
            writes->writes == NULL
                ? MemoryContextAllocHuge(writes->context, sizeof(struct rule_write) * room)
                : repalloc_huge(writes->writes, sizeof(struct rule_write) * room);
        writes->room = room;
    }
    memmove(&writes->writes[at + 1], &writes->writes[at],
            sizeof(struct rule_write) * (writes->count - at));
    writes->writes[at] = (struct rule_write){.xid = xid, .relid = relid};
    writes->count++;
}

/*
 * The transactions that a historic snapshot lists have committed. *next is an index in that list,
 * which is sorted as the writes are: so the time is proportional to the length of both.
 */
static bool
is_visible(Snapshot snapshot, TransactionId xid, uint32 *next)
{
    while (*next < snapshot->xcnt && snapshot->xip[*next] < xid)
        (*next)++;
    if (TransactionIdPrecedes(xid, snapshot->xmin))
        return true;
    return TransactionIdPrecedes(xid, snapshot->xmax) && *next < snapshot->xcnt &&
           snapshot->xip[*next] == xid;
}

void
rule_writes_look(struct rule_writes *writes, Snapshot snapshot,
                 void (*changed)(void *arg, Oid relid), void *arg)
{
    uint32 next = 0;
    int kept = 0;

    for (int i = 0; i < writes->count; i++) {
        struct rule_write write = writes->writes[i];
        bool visible = is_visible(snapshot, write.xid, &next);

        if (visible != write.is_visible && changed != NULL)
            changed(arg, write.relid);
        write.is_visible = visible;
        if (!visible || !TransactionIdPrecedes(write.xid, writes->horizon))
            writes->writes[kept++] = write;
    }
    writes->count = kept;
}

static char *
text_utf8(Datum value)
{
    char *plain = TextDatumGetCString(value);
    int len;
    char *utf8 = encode_to_utf8(plain, strlen(plain), &len);

    return pnstrdup(utf8, len);
}

static int16 *
read_numbers(Datum value, int *ret_count)
{
    ArrayType *array = DatumGetArrayTypeP(value);
    int count = ARR_HASNULL(array) ? 0 : ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
    int16 *numbers = palloc(sizeof(int16) * Max(count, 1));

    memcpy(numbers, ARR_DATA_PTR(array), sizeof(int16) * count);
    *ret_count = count;
    return numbers;
}

static int
compare_numbers(const void *a, const void *b)
{
    return *(const int16 *)a - *(const int16 *)b;
}

/* Sorts the numbers and removes duplicates. Returns their new count. */
static int
sort_numbers(int16 *numbers, int count)
{
    int kept = 0;

    qsort(numbers, count, sizeof(int16), compare_numbers);
    for (int i = 0; i < count; i++)
        if (kept == 0 || numbers[kept - 1] != numbers[i])
            numbers[kept++] = numbers[i];
    return kept;
}

void
rule_read_escalations(struct delivery *delivery, ArrayType *array)
{
    int count = ARR_HASNULL(array) ? 0 : ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
    const int64 *times = (const int64 *)ARR_DATA_PTR(array);

    for (int i = 0; i < Min(count, FRAME_ESCALATIONS); i++)
        delivery->escalations[i] = (uint32)times[i];
}

/* Returns NULL for arrays that violate the constraint of the table. */
static struct web_push_template *
read_web_push(Datum literals, Datum columns)
{
    struct web_push_template *members = palloc(sizeof(*members) * WEB_PUSH_MEMBERS);
    int16 *numbers;
    Datum *texts;
    bool *nulls;
    int count, number_count;

    deconstruct_array(DatumGetArrayTypeP(literals), TEXTOID, -1, false, TYPALIGN_INT, &texts,
                      &nulls, &count);
    numbers = read_numbers(columns, &number_count);
    if (count != WEB_PUSH_MEMBERS || number_count != WEB_PUSH_MEMBERS)
        return NULL;
    for (int i = 0; i < WEB_PUSH_MEMBERS; i++)
        members[i] = (struct web_push_template){nulls[i] ? "" : text_utf8(texts[i]), numbers[i]};
    return members;
}

/* Attributes that must not be null. */
static const uint8 required[] = {
    RULE_RELATION,    RULE_NAME,       RULE_AUDIENCE, RULE_TYPE,
    RULE_PRIORITY,    RULE_OPERATIONS, RULE_EMITTER,  RULE_ACK_REQUIRED,
    RULE_RETRY_LIMIT, RULE_BACKOFF,    RULE_PART,
};

/* True when the row satisfies the constraints of the table, which a superuser may have dropped. */
static bool
is_valid_row(const Datum *values, const bool *nulls)
{
    for (size_t i = 0; i < lengthof(required); i++)
        if (nulls[required[i] - 1])
            return false;
    return frame_values_are_valid(DatumGetInt16(values[RULE_TYPE - 1]),
                                  DatumGetInt16(values[RULE_PRIORITY - 1]),
                                  DatumGetInt16(values[RULE_BACKOFF - 1]));
}

static struct rule *
read_rule(const Datum *values, const bool *nulls)
{
    struct rule *rule = palloc0(sizeof(*rule));

#define VALUE(attribute) values[-1 + (attribute)]
#define IS_NULL(attribute) nulls[-1 + (attribute)]
    rule->relid = DatumGetObjectId(VALUE(RULE_RELATION));
    rule->name = TextDatumGetCString(VALUE(RULE_NAME));
    rule->audience = text_utf8(VALUE(RULE_AUDIENCE));
    rule->to_all = strcmp(rule->audience, "ALL") == 0;
    if (!IS_NULL(RULE_TARGET_COLUMN))
        rule->target_column = DatumGetInt16(VALUE(RULE_TARGET_COLUMN));
    if (!IS_NULL(RULE_TARGET_LIST))
        encode_read_targets(&rule->literal, DatumGetArrayTypeP(VALUE(RULE_TARGET_LIST)));
    if (!IS_NULL(RULE_TARGET_COLUMNS))
        rule->target_columns = read_numbers(VALUE(RULE_TARGET_COLUMNS), &rule->part_count);
    rule->part_count = Min(rule->part_count, LIMIT_PARTS);
    rule->delivery.type = DatumGetInt16(VALUE(RULE_TYPE));
    rule->delivery.priority = DatumGetInt16(VALUE(RULE_PRIORITY));
    rule->operations = DatumGetInt16(VALUE(RULE_OPERATIONS));
    rule->column_count = -1;
    if (!IS_NULL(RULE_COLUMNS)) {
        rule->columns = read_numbers(VALUE(RULE_COLUMNS), &rule->column_count);
        rule->column_count = sort_numbers(rule->columns, rule->column_count);
    }
    rule->emitter = text_utf8(VALUE(RULE_EMITTER));
    if (!IS_NULL(RULE_EMITTER_COLUMN))
        rule->emitter_column = DatumGetInt16(VALUE(RULE_EMITTER_COLUMN));
    if (!IS_NULL(RULE_TOPIC))
        rule->topic = text_utf8(VALUE(RULE_TOPIC));
    if (!IS_NULL(RULE_TTL)) {
        rule->ttl = palloc(sizeof(Interval));
        *rule->ttl = *DatumGetIntervalP(VALUE(RULE_TTL));
    }
    rule->delivery.ack_required = DatumGetBool(VALUE(RULE_ACK_REQUIRED));
    rule->delivery.retry_limit = DatumGetInt16(VALUE(RULE_RETRY_LIMIT));
    rule->delivery.backoff = DatumGetInt16(VALUE(RULE_BACKOFF));
    if (!IS_NULL(RULE_ONLY_WHEN))
        rule->only_when = TextDatumGetCString(VALUE(RULE_ONLY_WHEN));
    if (!IS_NULL(RULE_ACK_TIMEOUT))
        rule->delivery.ack_timeout = (uint32)DatumGetInt64(VALUE(RULE_ACK_TIMEOUT));
    rule->live = !IS_NULL(RULE_LIVE) && DatumGetBool(VALUE(RULE_LIVE));
    if (!IS_NULL(RULE_RECEIPTS) && DatumGetInt16(VALUE(RULE_RECEIPTS)) <= FRAME_RECEIPTS_USER)
        rule->delivery.receipts = DatumGetInt16(VALUE(RULE_RECEIPTS));
    if (!IS_NULL(RULE_ESCALATIONS))
        rule_read_escalations(&rule->delivery, DatumGetArrayTypeP(VALUE(RULE_ESCALATIONS)));
    if (!IS_NULL(RULE_WEB_PUSH) && !IS_NULL(RULE_WEB_PUSH_COLUMNS))
        rule->web_push = read_web_push(VALUE(RULE_WEB_PUSH), VALUE(RULE_WEB_PUSH_COLUMNS));
    if (!IS_NULL(RULE_FILTER_COLUMNS))
        rule->filter_columns = read_numbers(VALUE(RULE_FILTER_COLUMNS), &rule->filter_count);
    rule->part = DatumGetInt16(VALUE(RULE_PART));
    if (!IS_NULL(RULE_COLUMN_ORIGINS) && !IS_NULL(RULE_COLUMN_NUMBERS)) {
        int count;

        rule->origins = read_numbers(VALUE(RULE_COLUMN_ORIGINS), &rule->origin_count);
        rule->numbers = read_numbers(VALUE(RULE_COLUMN_NUMBERS), &count);
        rule->origin_count = Min(rule->origin_count, count);
    }
#undef IS_NULL
#undef VALUE
    return rule;
}

/* Sorts by name, so that sub-ordinals do not depend on the order in the heap. */
static int
compare_rules(const ListCell *a, const ListCell *b)
{
    const struct rule *left = lfirst(a);
    const struct rule *right = lfirst(b);
    int order = strcmp(left->name, right->name);

    if (order != 0)
        return order;
    if (left->relid != right->relid)
        return left->relid < right->relid ? -1 : 1;
    return left->part - right->part;
}

/* Appends in place: copying the growing string would take gigabytes for thousands of long rules. */
static void
append_condition(struct rule *rule, char *part)
{
    size_t len = rule->only_when == NULL ? 0 : strlen(rule->only_when);
    size_t added = strlen(part);

    if (rule->only_when == NULL)
        rule->only_when = palloc(added + 1);
    else
        rule->only_when = repalloc(rule->only_when, len + added + 1);
    memcpy(rule->only_when + len, part, added + 1);
    pfree(part);
}

static void
append_part(struct rule *rule, const struct rule *part)
{
    struct target_list *list = &rule->literal;
    int count = list->count + part->literal.count;

    digest_add_value(&rule->digest, part->digest);
    if (part->only_when != NULL)
        append_condition(rule, part->only_when);
    if (part->literal.count == 0)
        return;
    list->texts = repalloc(list->texts, sizeof(char *) * count);
    list->lengths = repalloc(list->lengths, sizeof(int) * count);
    memcpy(list->texts + list->count, part->literal.texts, sizeof(char *) * part->literal.count);
    memcpy(list->lengths + list->count, part->literal.lengths, sizeof(int) * part->literal.count);
    list->count = count;
}

/*
 * Joins the rows of each rule, which are sorted by `part`. Rows without a first part are ignored.
 */
static List *
join_parts(List *rows)
{
    struct rule *rule = NULL;
    List *rules = NIL;
    ListCell *cell;

    foreach (cell, rows) {
        struct rule *row = lfirst(cell);

        if (row->part == 0) {
            rules = lappend(rules, row);
            rule = row;
        } else if (rule != NULL && rule->relid == row->relid &&
                   strcmp(rule->name, row->name) == 0) {
            append_part(rule, row);
        }
    }
    return rules;
}

/* Reads the file of a relation in the current catalog. Returns false: it was dropped. */
static bool
current_file(Oid relid, Oid *ret_file)
{
    Relation classes = table_open(RelationRelationId, AccessShareLock);
    SysScanDesc scan;
    ScanKeyData key;
    HeapTuple row;

    ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
    scan = systable_beginscan(classes, ClassOidIndexId, true,
                              GetNonHistoricCatalogSnapshot(RelationRelationId), 1, &key);
    row = systable_getnext(scan);
    *ret_file = HeapTupleIsValid(row) ? ((Form_pg_class)GETSTRUCT(row))->relfilenode : InvalidOid;
    systable_endscan(scan);
    table_close(classes, AccessShareLock);
    return HeapTupleIsValid(row);
}

/*
 * The current catalog determines the file of a user catalog table. A dropped table cannot be read,
 * even for earlier changes. Those changes are not sent: otherwise the slot would never advance.
 */
static Oid
find_table(const char *name, Oid schema)
{
    Oid table = get_relname_relid(name, schema);
    Oid file;

    if (!OidIsValid(table))
        return InvalidOid;
    if (current_file(table, &file))
        return table;
    ereport(LOG, (errmsg("cannot read table \"clairon.%s\"", name),
                  errdetail("The table was dropped; changes from before that are not sent.")));
    return InvalidOid;
}

static const Oid rule_types[RULE_ATTRIBUTE_COUNT] = {
    REGCLASSOID,  TEXTOID,      TEXTOID, INT2OID,      TEXTARRAYOID, INT2OID,      INT2OID,
    INT2OID,      INT2ARRAYOID, TEXTOID, TEXTOID,      INTERVALOID,  BOOLOID,      INT2OID,
    INT2OID,      TEXTOID,      INT2OID, INT2ARRAYOID, INT2ARRAYOID, INT8OID,      INT2OID,
    INT2ARRAYOID, BOOLOID,      INT2OID, INT8ARRAYOID, TEXTARRAYOID, INT2ARRAYOID, INT2ARRAYOID,
};
static const Oid secret_types[] = {BYTEAOID};

/*
 * Opens a catalog table of the extension. Its first columns must have these types; a newer release
 * may have added others. Logs and returns NULL when the table was altered and cannot be read.
 */
static Relation
open_table(Oid table, const Oid *types, int count)
{
    Relation relation = table_open(table, AccessShareLock);
    TupleDesc desc = RelationGetDescr(relation);
    int columns = 0;

    while (columns < Min(count, desc->natts) &&
           TupleDescAttr(desc, columns)->atttypid == types[columns])
        columns++;
    if (columns == count && RelationIsUsedAsCatalogTable(relation))
        return relation;
    ereport(
        LOG,
        (errmsg("cannot read table \"clairon.%s\"", RelationGetRelationName(relation)),
         errdetail("The table was altered; no changes are sent."),
         errhint("Restore the columns of the table and its option user_catalog_table = true.")));
    table_close(relation, AccessShareLock);
    return NULL;
}

/* Scans the heap: VACUUM FULL deletes the old index, while heap tuples are mapped. */
static SysScanDesc
scan_rows(Relation relation)
{
    return systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
}

/*
 * True if the index begins with the relation of a rule, and has the same file as in the catalog
 * state of the change: an index is opened with the file of that state, which may have been deleted,
 * but a user catalog table with its current file. The lock on the open index keeps its file.
 */
static bool
is_index_usable(Relation index, Relation table)
{
    Oid file;

    return index->rd_rel->relkind == RELKIND_INDEX && index->rd_rel->relam == BTREE_AM_OID &&
           index->rd_index->indrelid == RelationGetRelid(table) && index->rd_index->indisvalid &&
           index->rd_index->indkey.values[0] == RULE_RELATION &&
           index->rd_opfamily[0] == OID_BTREE_FAM_OID && RelationGetIndexPredicate(index) == NIL &&
           current_file(RelationGetRelid(index), &file) && index->rd_rel->relfilenode == file;
}

/*
 * A row that is older than a column uses the column's default, which may change. The digest of such
 * a row is unique.
 */
static struct digest
digest_of_row(HeapTuple row)
{
    const int start = offsetof(HeapTupleHeaderData, t_bits);
    const struct {
        int natts, has_nulls, hoff;
    } shape = {HeapTupleHeaderGetNatts(row->t_data), HeapTupleHasNulls(row), row->t_data->t_hoff};
    static uint64 unique;
    struct digest digest = {{0, 0}};

    digest_add_value(&digest, shape);
    digest_add(&digest, (char *)row->t_data + start, row->t_len - start);
    if (shape.natts < RULE_ATTRIBUTE_COUNT) {
        unique++;
        digest_add_value(&digest, unique);
    }
    return digest;
}

static bool
has_name(HeapTuple row, TupleDesc desc, const char *name)
{
    bool is_null;
    Datum value = heap_getattr(row, RULE_NAME, desc, &is_null);

    return !is_null && strcmp(TextDatumGetCString(value), name) == 0;
}

Oid
rules_relation_of(HeapTuple row, Relation table)
{
    bool is_null;
    Datum value = heap_getattr(row, RULE_RELATION, RelationGetDescr(table), &is_null);

    return is_null ? InvalidOid : DatumGetObjectId(value);
}

/* The rows to read. */
struct row_filter {
    Oid relid;        /* InvalidOid: of all relations */
    const char *name; /* NULL: with any name */
};

/* Reads the rows into the current memory context, and ends the scan. */
static List *
read_rows(Relation relation, SysScanDesc scan, const struct row_filter *filter)
{
    TupleDesc desc = RelationGetDescr(relation);
    Datum *values = palloc(sizeof(Datum) * desc->natts);
    bool *nulls = palloc(sizeof(bool) * desc->natts);
    List *rules = NIL;
    HeapTuple tuple;

    while ((tuple = systable_getnext(scan)) != NULL) {
        HeapTuple row;

        if ((OidIsValid(filter->relid) && rules_relation_of(tuple, relation) != filter->relid) ||
            (filter->name != NULL && !has_name(tuple, desc, filter->name)))
            continue;
        row = heap_copytuple(tuple); /* the rule points into it */
        heap_deform_tuple(row, desc, values, nulls);
        if (is_valid_row(values, nulls)) {
            struct rule *rule = read_rule(values, nulls);

            rule->digest = digest_of_row(row);
            rules = lappend(rules, rule);
        } else
            ereport(LOG, (errmsg("invalid row in table \"clairon.rule\""),
                          errdetail("The row at ctid (%u,%u) is ignored.",
                                    ItemPointerGetBlockNumber(&row->t_self),
                                    ItemPointerGetOffsetNumber(&row->t_self))));
    }
    systable_endscan(scan);
    list_sort(rules, compare_rules);
    return join_parts(rules);
}

bool
rules_read_secret(Oid schema, uint8 ret_secret[SECRET_BYTES])
{
    Oid table = find_table("secret", schema);
    Relation relation;
    SysScanDesc scan;
    HeapTuple tuple;
    bool found = false;

    if (!OidIsValid(table) ||
        (relation = open_table(table, secret_types, lengthof(secret_types))) == NULL)
        return false;
    scan = scan_rows(relation);
    while ((tuple = systable_getnext(scan)) != NULL) {
        bool is_null;
        Datum value = heap_getattr(tuple, 1, RelationGetDescr(relation), &is_null);
        bytea *bytes;

        if (is_null)
            continue;
        bytes = DatumGetByteaPP(value);
        if (VARSIZE_ANY_EXHDR(bytes) != SECRET_BYTES)
            continue;
        memcpy(ret_secret, VARDATA_ANY(bytes), SECRET_BYTES);
        found = true;
    }
    systable_endscan(scan);
    table_close(relation, AccessShareLock);
    return found;
}

/* Adds the transactions that wrote the rows, whether or not the snapshot includes them. */
static void
list_writers(struct rule_writes *writes, Relation relation)
{
    SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, SnapshotAny, 0, NULL);
    HeapTuple row;

    while ((row = systable_getnext(scan)) != NULL) {
        Oid relid = rules_relation_of(row, relation);

        rule_writes_add(writes, HeapTupleHeaderGetXmin(row->t_data), relid);
        if ((row->t_data->t_infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI)) == 0)
            rule_writes_add(writes, HeapTupleHeaderGetRawXmax(row->t_data), relid);
        else if ((row->t_data->t_infomask & HEAP_XMAX_INVALID) == 0 &&
                 !HEAP_XMAX_IS_LOCKED_ONLY(row->t_data->t_infomask))
            rule_writes_add(writes, HeapTupleGetUpdateXid(row->t_data), relid);
    }
    systable_endscan(scan);
}

struct relation_rules *
rules_of(const struct rule_set *set, Oid relid)
{
    return hash_search(set->relations, &relid, HASH_FIND, NULL);
}

static struct relation_rules *
add_relation(struct rule_set *set, Oid relid)
{
    bool found;
    struct relation_rules *relation = hash_search(set->relations, &relid, HASH_ENTER, &found);

    if (!found)
        *relation = (struct relation_rules){.relid = relid};
    return relation;
}

/* Relations, such as dropped ones, that may be outdated after all rules were read. */
#define OUTDATED_MAX 20000

void
rules_outdate(struct rule_set *set, Oid relid)
{
    if (OidIsValid(relid) && hash_get_num_entries(set->relations) < set->relations_max)
        add_relation(set, relid)->is_outdated = true;
    else
        set->is_outdated = true;
}

/* Opens clairon.rule; NULL: it cannot be read. */
static Relation
open_rules(const struct rule_set *set)
{
    Oid table = OidIsValid(set->schema) ? find_table("rule", set->schema) : InvalidOid;

    return OidIsValid(table) ? open_table(table, rule_types, lengthof(rule_types)) : NULL;
}

/* Reads the rules of one relation, by the index if it is usable. */
static List *
read_relation(const struct rule_set *set, Relation table, Oid relid)
{
    const struct row_filter filter = {.relid = relid};
    Oid oid = get_relname_relid("rule_pkey", set->schema);
    Relation index = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : NULL;
    ScanKeyData key;
    List *rules;

    if (index != NULL && is_index_usable(index, table)) {
        ScanKeyInit(&key, RULE_RELATION, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
        rules = read_rows(table, systable_beginscan(table, oid, true, NULL, 1, &key), &filter);
    } else {
        rules = read_rows(table, scan_rows(table), &filter);
    }
    if (index != NULL)
        relation_close(index, AccessShareLock);
    return rules;
}

void
rules_read_again(struct rule_set *set, struct relation_rules *relation)
{
    MemoryContext context =
        AllocSetContextCreate(set->context, "clairon rules of a table", ALLOCSET_SMALL_SIZES);
    MemoryContext old = MemoryContextSwitchTo(context);
    List *rules = NIL;
    Relation table = open_rules(set);

    if (table != NULL) {
        rules = read_relation(set, table, relation->relid);
        table_close(table, AccessShareLock);
    }
    MemoryContextSwitchTo(old);
    if (relation->context != NULL)
        MemoryContextDelete(relation->context);
    relation->context = context;
    relation->rules = rules;
    relation->is_outdated = false;
}

static bool
headers_equal(const struct rule_set *a, const struct rule_set *b)
{
    return a->schema == b->schema && a->member == b->member && a->receipt == b->receipt &&
           a->table == b->table && a->file == b->file && a->natts == b->natts &&
           a->has_secret == b->has_secret && memcmp(a->secret, b->secret, SECRET_BYTES) == 0;
}

static void
read_all(struct rule_set *set, Relation table)
{
    const struct row_filter filter = {.relid = InvalidOid};
    List *rules = read_rows(table, scan_rows(table), &filter);
    ListCell *cell;

    foreach (cell, rules) {
        struct rule *rule = lfirst(cell);
        struct relation_rules *relation = add_relation(set, rule->relid);

        relation->rules = lappend(relation->rules, rule);
    }
}

struct rule_set *
rules_read(struct rule_set *known, struct rule_writes *writes)
{
    struct rule_set *set = palloc0(sizeof(*set));
    Relation table;

    set->context = CurrentMemoryContext;
    set->schema = get_namespace_oid("clairon", true);
    if (OidIsValid(set->schema)) {
        set->member = get_relname_relid("member", set->schema);
        set->receipt = get_relname_relid("receipt", set->schema);
        set->has_secret = rules_read_secret(set->schema, set->secret);
    }
    table = open_rules(set);
    if (table != NULL) {
        set->table = RelationGetRelid(table);
        set->file = table->rd_rel->relfilenode;
        set->natts = RelationGetDescr(table)->natts;
    }
    if (known == NULL || known->is_outdated || !headers_equal(known, set)) {
        set->relations =
            oid_table_new("clairon rules", 64, sizeof(struct relation_rules), set->context);
        known = set;
        if (table != NULL) {
            list_writers(writes, table);
            read_all(set, table);
        }
        set->relations_max = hash_get_num_entries(set->relations) + OUTDATED_MAX;
    }
    if (table != NULL)
        table_close(table, AccessShareLock);
    return known;
}

List *
rules_find(Oid relid, const char *name, Snapshot snapshot)
{
    Oid schema = get_namespace_oid("clairon", false);
    Oid index = OidIsValid(relid) ? get_relname_relid("rule_pkey", schema) : InvalidOid;
    Oid table = find_table("rule", schema);
    Relation relation;
    SysScanDesc scan;
    ScanKeyData key;
    const struct row_filter filter = {.relid = relid, .name = name};
    List *rules;

    if (!OidIsValid(table) ||
        (relation = open_table(table, rule_types, lengthof(rule_types))) == NULL)
        return NIL;
    ScanKeyInit(&key, RULE_RELATION, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
    scan =
        systable_beginscan(relation, index, OidIsValid(index), snapshot, OidIsValid(relid), &key);
    rules = read_rows(relation, scan, &filter);
    table_close(relation, AccessShareLock);
    return rules;
}

const char *
rule_source(const char *schema, const char *table)
{
    return strcmp(schema, "public") == 0 ? table : psprintf("%s.%s", schema, table);
}

struct rule *
rules_ad_hoc(void)
{
    struct rule *rule = palloc0(sizeof(*rule));

    rule->name = pstrdup("default");
    rule->audience = pstrdup("ALL");
    rule->to_all = true;
    rule->delivery.type = FRAME_TYPE_REALTIME;
    rule->delivery.priority = FRAME_PRIORITY_NORMAL;
    rule->operations = RULE_OPERATION(FRAME_OPERATION_CREATE) |
                       RULE_OPERATION(FRAME_OPERATION_UPDATE) |
                       RULE_OPERATION(FRAME_OPERATION_DELETE);
    rule->column_count = -1;
    rule->emitter = pstrdup("clairon");
    rule->delivery.retry_limit = 5;
    rule->delivery.backoff = FRAME_BACKOFF_EXPONENTIAL;
    return rule;
}

struct rule *
rules_unread(Oid relid)
{
    struct rule *rule = rules_ad_hoc();

    rule->relid = relid;
    rule->name = pstrdup("*");
    rule->operations |= RULE_OPERATION(FRAME_OPERATION_TRUNCATE);
    rule->live = true;
    rule->is_unread = true;
    return rule;
}
