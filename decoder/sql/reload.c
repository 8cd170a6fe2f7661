/*
 * reload.c: finds the lists that a DDL command affects.
 *
 * An event trigger runs after its command, when the catalogs no longer contain a dropped table, an
 * old name, or the parents of a detached partition. Clients have lists from before the transaction,
 * so that state is read with a snapshot that hides the transaction's own changes.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "rules/inheritance.h"
#include "rules/rules.h"

PG_FUNCTION_INFO_V1(clairon_tables_above);
PG_FUNCTION_INFO_V1(clairon_sources_of);

/* Registering copies the snapshot, so that it may be changed. */
static Snapshot
register_start(void)
{
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());

    snapshot->curcid = FirstCommandId;
    return snapshot;
}

/*
 * tables_above(relation oid) -> oid[]: the table, its ancestors, and its ancestors before this
 * transaction.
 */
Datum
clairon_tables_above(PG_FUNCTION_ARGS)
{
    Oid relid = PG_GETARG_OID(0);
    Snapshot start = register_start();
    List *above = list_concat_unique_oid(ancestors_of(relid), ancestors_as_of(relid, start));
    ArrayBuildState *result =
        accumArrayResult(NULL, ObjectIdGetDatum(relid), false, OIDOID, CurrentMemoryContext);
    ListCell *cell;

    UnregisterSnapshot(start);
    foreach (cell, above)
        result = accumArrayResult(result, ObjectIdGetDatum(lfirst_oid(cell)), false, OIDOID,
                                  CurrentMemoryContext);
    PG_RETURN_DATUM(makeArrayResult(result, CurrentMemoryContext));
}

/* Returns a copy of the catalog row with this OID, or NULL. */
static HeapTuple
read_row(Oid catalog, Oid index, AttrNumber attribute, Oid object, Snapshot snapshot)
{
    Relation relation = table_open(catalog, AccessShareLock);
    SysScanDesc scan;
    ScanKeyData key;
    HeapTuple row;

    ScanKeyInit(&key, attribute, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
    scan = systable_beginscan(relation, index, true, snapshot, 1, &key);
    row = systable_getnext(scan);
    if (HeapTupleIsValid(row))
        row = heap_copytuple(row);
    systable_endscan(scan);
    table_close(relation, AccessShareLock);
    return row;
}

/* Returns NULL when the table does not exist. */
static const char *
source_as_of(Oid relid, Snapshot snapshot)
{
    HeapTuple class =
        read_row(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid, snapshot);
    HeapTuple schema;

    if (!HeapTupleIsValid(class))
        return NULL;
    schema = read_row(NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid,
                      ((Form_pg_class)GETSTRUCT(class))->relnamespace, snapshot);
    if (!HeapTupleIsValid(schema))
        return NULL;
    return rule_source(NameStr(((Form_pg_namespace)GETSTRUCT(schema))->nspname),
                       NameStr(((Form_pg_class)GETSTRUCT(class))->relname));
}

static ArrayBuildState *
add_source(ArrayBuildState *sources, const char *source)
{
    return accumArrayResult(sources, CStringGetTextDatum(source), false, TEXTOID,
                            CurrentMemoryContext);
}

/*
 * sources_of(relation oid) -> text[]: metadata.source of the table's notifications, and its value
 * before this transaction if it was different.
 */
Datum
clairon_sources_of(PG_FUNCTION_ARGS)
{
    Oid relid = PG_GETARG_OID(0);
    Snapshot start = register_start();
    const char *now = source_as_of(relid, NULL);
    const char *before = source_as_of(relid, start);
    ArrayBuildState *sources = initArrayResult(TEXTOID, CurrentMemoryContext, false);

    UnregisterSnapshot(start);
    if (now != NULL)
        sources = add_source(sources, now);
    if (before != NULL && (now == NULL || strcmp(now, before) != 0))
        sources = add_source(sources, before);
    PG_RETURN_DATUM(makeArrayResult(sources, CurrentMemoryContext));
}
