/* logged.c: checks that the WAL contains the changes that keep live rows up to date. */
#include "rows/logged.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "nodes/bitmapset.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

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

        if (column->attisdropped)
            continue;
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

    foreach (cell, tree) {
        Relation leaf = relation_open(lfirst_oid(cell), NoLock);

        /* The query does not read temporary child tables of other sessions. */
        if (leaf->rd_rel->relkind == RELKIND_RELATION &&
            leaf->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
            check_changes(relation, leaf, needed);
        relation_close(leaf, NoLock);
    }
}
