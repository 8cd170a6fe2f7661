/* key.c: find the key of a table with live rules. */
#include "rows/key.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

/* A deferrable key may have duplicates within a transaction. */
static bool
is_key(Relation relation, const Form_pg_index index)
{
    if (!index->indisvalid || !index->indimmediate)
        return false;
    return relation->rd_rel->relreplident == REPLICA_IDENTITY_INDEX ? index->indisreplident
                                                                    : index->indisprimary;
}

static void
read_index(struct row_key *key, Relation index)
{
    key->count = IndexRelationGetNumberOfKeyAttributes(index);
    for (int i = 0; i < key->count; i++) {
        Oid type = index->rd_opcintype[i];

        key->numbers[i] = index->rd_index->indkey.values[i];
        key->collations[i] = index->rd_indcollation[i];
        key->less_than[i] =
            get_opfamily_member(index->rd_opfamily[i], type, type, BTLessStrategyNumber);
        if (!OidIsValid(key->less_than[i]))
            elog(ERROR, "missing operator %d of opfamily %u", BTLessStrategyNumber,
                 index->rd_opfamily[i]);
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
            read_index(key, index);
        index_close(index, AccessShareLock);
    }
    if (key->count == 0)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("rows of \"%s\" have no key", RelationGetRelationName(relation)),
                 errhint("The table needs a primary key or a replica identity index that is not "
                         "deferrable.")));
}
