/*
 * live_table.c: check a table with a live rule: its partitions and child tables, its key, and
 * whether the WAL contains the changes that keep its rows up to date.
 */
#include "sql/user_rows.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/nodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* The tree of partitions and child tables. */

/*
 * The WAL contains no changes of foreign tables, so their rows would never be updated. An empty
 * table may have become a view after the rule was set (before PostgreSQL 16).
 */
static void
check_kind(Relation relation, Form_pg_class leaf)
{
    if (leaf->relkind != RELKIND_RELATION && leaf->relkind != RELKIND_PARTITIONED_TABLE)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        errmsg("cannot read rows of \"%s\"", RelationGetRelationName(relation)),
                        errdetail("\"%s\" is not a table.", NameStr(leaf->relname))));
}

/*
 * The query runs as the owner of the relation. So expressions in indexes, constraints and
 * statistics of another owner's table would run with the wrong privileges.
 */
static void
check_owner(Relation relation, Form_pg_class leaf)
{
    Oid owner = relation->rd_rel->relowner;
    char *leaf_name;

    if (leaf->relowner == owner)
        return;
    leaf_name =
        quote_qualified_identifier(get_namespace_name(leaf->relnamespace), NameStr(leaf->relname));
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot read rows of \"%s\"", RelationGetRelationName(relation)),
                    errdetail("Partition or child table %s belongs to \"%s\" instead of \"%s\".",
                              leaf_name, GetUserNameFromId(leaf->relowner, true),
                              GetUserNameFromId(owner, true)),
                    errhint("Run ALTER TABLE %s OWNER TO %s.", leaf_name,
                            quote_identifier(GetUserNameFromId(owner, false)))));
}

/* The relfilenode as of the active snapshot, or InvalidOid if the table is not visible. */
static Oid
snapshot_filenode(Oid relid)
{
    Relation catalog = table_open(RelationRelationId, AccessShareLock);
    ScanKeyData key;
    SysScanDesc scan;
    HeapTuple tuple;
    Oid file;

    ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
    scan = systable_beginscan(catalog, ClassOidIndexId, true, GetActiveSnapshot(), 1, &key);
    tuple = systable_getnext(scan);
    file = HeapTupleIsValid(tuple) ? ((Form_pg_class)GETSTRUCT(tuple))->relfilenode : InvalidOid;
    systable_endscan(scan);
    table_close(catalog, AccessShareLock);
    return file;
}

/*
 * During the wait for the lock, a TRUNCATE or an ALTER TABLE may have replaced the table's file. To
 * the older snapshot the new file is empty, so the result would lack rows. VACUUM FULL and similar
 * commands replace the file but keep old rows visible; after them, reads are repeated needlessly.
 */
static void
check_file(Form_pg_class leaf)
{
    if (leaf->relfilenode != snapshot_filenode(leaf->oid))
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("table \"%s\" was rewritten concurrently", NameStr(leaf->relname)),
                        errhint("The transaction might succeed if retried.")));
}

static void
check_leaf(Relation relation, Oid relid)
{
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for relation %u", relid);
    check_kind(relation, (Form_pg_class)GETSTRUCT(tuple));
    check_owner(relation, (Form_pg_class)GETSTRUCT(tuple));
    check_file((Form_pg_class)GETSTRUCT(tuple));
    ReleaseSysCache(tuple);
}

static List *
find_tree(Relation relation)
{
    return find_all_inheritors(RelationGetRelid(relation), AccessShareLock, NULL);
}

List *
tree_check(Relation relation)
{
    List *tree = find_tree(relation);
    ListCell *cell;

    foreach (cell, tree)
        check_leaf(relation, lfirst_oid(cell));
    return tree;
}

static _Noreturn void
raise_changed(Relation relation)
{
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                    errmsg("partitions or child tables of \"%s\" changed concurrently",
                           RelationGetRelationName(relation)),
                    errhint("The transaction might succeed if retried.")));
}

void
tree_check_again(Relation relation, const List *tree)
{
    if (!equal(find_tree(relation), tree))
        raise_changed(relation);
}

/* plan->relationOids is not used, since it also contains constants of type oid. */
static List *
planned_tables(const PlannedStmt *plan)
{
    List *tables = NIL;
    ListCell *cell;

    foreach (cell, plan->rtable) {
        const RangeTblEntry *entry = lfirst(cell);

        if (entry->rtekind == RTE_RELATION)
            tables = lappend_oid(tables, entry->relid);
    }
    list_sort(tables, list_oid_cmp);
    return tables;
}

void
tree_check_plan(Relation relation, const List *tree, const PlannedStmt *plan)
{
    List *checked = list_copy(tree);
    int at = 0;
    ListCell *cell;

    list_sort(checked, list_oid_cmp);
    foreach (cell, planned_tables(plan)) {
        while (at < list_length(checked) && list_nth_oid(checked, at) < lfirst_oid(cell))
            at++;
        if (at == list_length(checked) || list_nth_oid(checked, at) != lfirst_oid(cell))
            raise_changed(relation);
    }
}

/* The key. */

/* A deferrable key may have duplicates within a transaction. */
static bool
is_key(Relation relation, const FormData_pg_index *index)
{
    if (!index->indisvalid || !index->indimmediate)
        return false;
    return relation->rd_rel->relreplident == REPLICA_IDENTITY_INDEX ? index->indisreplident
                                                                    : index->indisprimary;
}

/* Uses the default order of each type, because the index of a WITHOUT OVERLAPS key has no order. */
static void
read_index(struct row_key *key, Relation relation, Relation index)
{
    key->count = IndexRelationGetNumberOfKeyAttributes(index);
    for (int i = 0; i < key->count; i++) {
        AttrNumber number = index->rd_index->indkey.values[i];
        Oid type = TupleDescAttr(RelationGetDescr(relation), number - 1)->atttypid;

        key->numbers[i] = number;
        key->collations[i] = index->rd_indcollation[i];
        key->less_than[i] = lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr;
        if (!OidIsValid(key->less_than[i]))
            ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                            errmsg("could not identify an ordering operator for type %s",
                                   format_type_be(type))));
    }
}

void
row_key_read(struct row_key *key, Relation relation)
{
    List *indexes = RelationGetIndexList(relation);
    ListCell *cell;

    key->count = 0;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);

        if (is_key(relation, index->rd_index))
            read_index(key, relation, index);
        index_close(index, AccessShareLock);
    }
    if (key->count == 0)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("relation \"%s\" has no usable key", RelationGetRelationName(relation)),
                 errhint("Add a primary key or a replica identity index that is not "
                         "deferrable.")));
}

/* The changes in the WAL. */

/* Returns whether only_when contains $number. */
static bool
has_parameter(const char *only_when, int number)
{
    const char *at = only_when;

    while ((at = strchr(at, '$')) != NULL) {
        char *end;

        at++;
        if (strtol(at, &end, 10) == number && end > at)
            return true;
    }
    return false;
}

/* Adds a column of the rule. 0: no column. */
static Bitmapset *
add_column(Bitmapset *columns, int number)
{
    return number > 0 ? bms_add_member(columns, number) : columns;
}

/* The columns that identify a row, or determine its recipients. */
static Bitmapset *
needed_columns(const struct rule *rule, const struct row_key *key)
{
    Bitmapset *columns = add_column(NULL, rule->target_column);

    for (int i = 0; i < rule->part_count; i++)
        columns = add_column(columns, rule->target_columns[i]);
    for (int i = 0; i < key->count; i++)
        columns = add_column(columns, key->numbers[i]);
    for (int i = 0; rule->only_when != NULL && i < rule->origin_count; i++)
        if (has_parameter(rule->only_when, rule->origins[i]))
            columns = add_column(columns, rule->numbers[i]);
    return columns;
}

/* Without the column, the rule addresses its rows to no user, and sends no change. */
static void
check_dropped(Relation relation, Bitmapset *needed)
{
    TupleDesc desc = RelationGetDescr(relation);
    int number = -1;

    while ((number = bms_next_member(needed, number)) >= 0)
        if (number > desc->natts || TupleDescAttr(desc, number - 1)->attisdropped)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("cannot read rows of \"%s\"", RelationGetRelationName(relation)),
                            errdetail("A column of the rule's targets or condition was dropped."),
                            errhint("Set the rule again with clairon.watch().")));
}

static const char *
qualified_name(Relation relation)
{
    return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
                                      RelationGetRelationName(relation));
}

static void
check_old_row(Relation relation, Relation leaf, Bitmapset *needed)
{
    Bitmapset *logged = RelationGetIndexAttrBitmap(leaf, INDEX_ATTR_BITMAP_IDENTITY_KEY);
    int number = -1;

    while ((number = bms_next_member(needed, number)) >= 0) {
        FormData_pg_attribute *column = TupleDescAttr(RelationGetDescr(relation), number - 1);
        const char *name = NameStr(column->attname);
        int in_leaf = get_attnum(RelationGetRelid(leaf), name);

        if (!bms_is_member(in_leaf - FirstLowInvalidHeapAttributeNumber, logged))
            ereport(ERROR,
                    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                     errmsg("cannot read rows of \"%s\"", RelationGetRelationName(relation)),
                     errdetail("The WAL does not contain \"%s\" of the old rows of %s.", name,
                               qualified_name(leaf)),
                     errhint("Run ALTER TABLE %s REPLICA IDENTITY FULL.", qualified_name(leaf))));
    }
}

static void
check_changes(Relation relation, Relation leaf, Bitmapset *needed)
{
    if (leaf->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("cannot read rows of \"%s\"", RelationGetRelationName(relation)),
                        errdetail("The WAL does not contain changes of the unlogged table %s.",
                                  qualified_name(leaf)),
                        errhint("Run ALTER TABLE %s SET LOGGED.", qualified_name(leaf))));
    if (leaf->rd_rel->relreplident != REPLICA_IDENTITY_FULL)
        check_old_row(relation, leaf, needed);
}

void
logged_check(const struct rule *rule, Relation relation, const struct row_key *key,
             const List *tree)
{
    Bitmapset *needed = needed_columns(rule, key);
    ListCell *cell;

    check_dropped(relation, needed);
    foreach (cell, tree) {
        Relation leaf = relation_open(lfirst_oid(cell), NoLock);

        /* The query does not read temporary child tables of other sessions. */
        if (leaf->rd_rel->relkind == RELKIND_RELATION &&
            leaf->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
            check_changes(relation, leaf, needed);
        relation_close(leaf, NoLock);
    }
}
