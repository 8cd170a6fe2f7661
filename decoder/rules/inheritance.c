/* inheritance.c: find the ancestors of a table: their rules apply to its rows. */
#include "rules/inheritance.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_inherits.h"
#include "utils/fmgroids.h"

/* Appends the parents of a partition or child table, without duplicates. */
static List *
add_parents(List *above, Relation inherits, Oid relid)
{
    SysScanDesc scan;
    ScanKeyData key;
    HeapTuple tuple;

    ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(relid));
    scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
    while ((tuple = systable_getnext(scan)) != NULL) {
        Form_pg_inherits link = (Form_pg_inherits)GETSTRUCT(tuple);

        /* New snapshots no longer include a partition that is being detached. */
        if (!link->inhdetachpending)
            above = list_append_unique_oid(above, link->inhparent);
    }
    systable_endscan(scan);
    return above;
}

List *
ancestors_of(Oid relid)
{
    Relation inherits = table_open(InheritsRelationId, AccessShareLock);
    List *above = add_parents(NIL, inherits, relid);

    /* The loop appends to the list. */
    for (int i = 0; i < list_length(above); i++)
        above = add_parents(above, inherits, list_nth_oid(above, i));
    table_close(inherits, AccessShareLock);
    return above;
}
