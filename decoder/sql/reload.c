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
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "rules/rules.h"

PG_FUNCTION_INFO_V1(clairon_related_tables);
PG_FUNCTION_INFO_V1(clairon_sources_of);

/* Registering copies the snapshot, so that it may be changed. */
static Snapshot
register_start(void)
{
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());

    snapshot->curcid = FirstCommandId;
    return snapshot;
}

/* Appends the tables that are linked to this one, above or below it, unless they were found. */
static List *
add_linked(List *tables, HTAB *found, Relation inherits, Oid relid, bool above, Snapshot snapshot)
{
    SysScanDesc scan;
    ScanKeyData key;
    HeapTuple tuple;

    ScanKeyInit(&key, above ? Anum_pg_inherits_inhrelid : Anum_pg_inherits_inhparent,
                BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
    scan = systable_beginscan(inherits, above ? InheritsRelidSeqnoIndexId : InheritsParentIndexId,
                              true, snapshot, 1, &key);
    while ((tuple = systable_getnext(scan)) != NULL) {
        Form_pg_inherits link = (Form_pg_inherits)GETSTRUCT(tuple);
        Oid other = above ? link->inhparent : link->inhrelid;
        bool known;

        if (link->inhdetachpending)
            continue;
        (void)hash_search(found, &other, HASH_ENTER, &known);
        if (!known)
            tables = lappend_oid(tables, other);
    }
    systable_endscan(scan);
    return tables;
}

/* Appends all tables above, or below, the given ones. */
static List *
add_above_or_below(List *tables, const List *given, bool above, Snapshot snapshot)
{
    HASHCTL control = {
        .keysize = sizeof(Oid), .entrysize = sizeof(Oid), .hcxt = CurrentMemoryContext};
    HTAB *found =
        hash_create("clairon related tables", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    Relation inherits = table_open(InheritsRelationId, AccessShareLock);
    List *added = list_copy(given);

    /* The loop appends to the list. */
    for (int i = 0; i < list_length(added); i++)
        added = add_linked(added, found, inherits, list_nth_oid(added, i), above, snapshot);
    table_close(inherits, AccessShareLock);
    hash_destroy(found);
    return list_concat(tables, added);
}

static List *
oids_of_array(ArrayType *array)
{
    Datum *elements;
    bool *nulls;
    int count;
    List *oids = NIL;

    deconstruct_array(array, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &elements, &nulls, &count);
    for (int i = 0; i < count; i++)
        if (!nulls[i])
            oids = lappend_oid(oids, DatumGetObjectId(elements[i]));
    return oids;
}

/*
 * related_tables(tables oid[]) -> oid[]: the tables, and all tables above and below them, now and
 * before this transaction. An OID may occur more than once. The work depends on these tables only,
 * since everybody's DDL calls the function.
 */
Datum
clairon_related_tables(PG_FUNCTION_ARGS)
{
    List *given = oids_of_array(PG_GETARG_ARRAYTYPE_P(0));
    Snapshot start = register_start();
    ArrayBuildState *result = initArrayResult(OIDOID, CurrentMemoryContext, false);
    List *related = NIL;
    ListCell *cell;

    for (int above = 0; above < 2; above++) {
        related = add_above_or_below(related, given, above, NULL);
        related = add_above_or_below(related, given, above, start);
    }
    UnregisterSnapshot(start);
    foreach (cell, related)
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
