/* tree.c: check a table with a live rule, its partitions and child tables. */
#include "rows/tree.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/nodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

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
