/* key.c: find the key of a table with live rules. */
#include "rows/key.h"

#include "access/genam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "utils/builtins.h"
#include "utils/relcache.h"
#include "utils/typcache.h"

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
