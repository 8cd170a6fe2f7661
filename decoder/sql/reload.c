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
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
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
#include "utils/syscache.h"

#include "base/data.h"
#include "rules/rules.h"

PG_FUNCTION_INFO_V1(clairon_related_tables);
PG_FUNCTION_INFO_V1(clairon_sources_of);
PG_FUNCTION_INFO_V1(clairon_tables_of_keys);
PG_FUNCTION_INFO_V1(clairon_tables_with_type);

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
    HTAB *found = oid_table_new("clairon related tables", 64, sizeof(Oid), CurrentMemoryContext);
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

/*
 * tables_of_keys(indexes oid[]) -> oid[]: the tables of those indexes that were unique before this
 * transaction, which may have dropped them.
 */
Datum
clairon_tables_of_keys(PG_FUNCTION_ARGS)
{
    Snapshot start = register_start();
    ArrayBuildState *tables = initArrayResult(OIDOID, CurrentMemoryContext, false);
    ListCell *cell;

    foreach (cell, oids_of_array(PG_GETARG_ARRAYTYPE_P(0))) {
        HeapTuple row = read_row(IndexRelationId, IndexRelidIndexId, Anum_pg_index_indexrelid,
                                 lfirst_oid(cell), start);
        Form_pg_index index = HeapTupleIsValid(row) ? (Form_pg_index)GETSTRUCT(row) : NULL;

        if (index != NULL && index->indisunique)
            tables = accumArrayResult(tables, ObjectIdGetDatum(index->indrelid), false, OIDOID,
                                      CurrentMemoryContext);
    }
    UnregisterSnapshot(start);
    PG_RETURN_DATUM(makeArrayResult(tables, CurrentMemoryContext));
}

/*
 * Anybody may use a type of another owner, and that owner's DDL waits for the search. So there are
 * limits, except for objects that belong to an owner of the altered types.
 */
#define USERS_PER_OWNER_MAX 1000
#define DEPENDENCIES_MAX 5000

/* A table or a type that contains one of the types. */
struct type_user {
    Oid oid;
    Oid owner;
    bool is_limited;
};

struct type_search {
    Relation depend;
    const List *owners; /* of the altered types */
    HTAB *users;        /* struct type_user, by OID */
    HTAB *counts;       /* struct owner_count, by owner */
    List *types;        /* struct type_user *; the search appends to it */
    List *tables;
    int dependencies; /* of limited users */
    bool is_incomplete;
};

struct owner_count {
    Oid owner;
    int count;
};

static Oid
owner_of_type(Oid type)
{
    HeapTuple row = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
    Oid owner = InvalidOid;

    if (HeapTupleIsValid(row)) {
        owner = ((Form_pg_type)GETSTRUCT(row))->typowner;
        ReleaseSysCache(row);
    }
    return owner;
}

/* Counts an object of this owner. Returns false beyond the limit. */
static bool
is_within_limit(struct type_search *search, Oid owner)
{
    bool found;
    struct owner_count *count = hash_search(search->counts, &owner, HASH_ENTER, &found);

    if (!found)
        count->count = 0;
    return ++count->count <= USERS_PER_OWNER_MAX;
}

/* Returns the user, or NULL if it was found before or is beyond a limit. */
static struct type_user *
add_user(struct type_search *search, Oid oid, Oid owner)
{
    struct type_user *user = hash_search(search->users, &oid, HASH_ENTER, NULL);

    user->owner = owner;
    user->is_limited = !list_member_oid(search->owners, owner);
    if (user->is_limited && !is_within_limit(search, owner)) {
        search->is_incomplete = true;
        return NULL;
    }
    return user;
}

static void
add_type(struct type_search *search, Oid type, Oid owner)
{
    struct type_user *user = add_user(search, type, owner);

    if (user != NULL)
        search->types = lappend(search->types, user);
}

/* Also adds the row type, which has the same owner and does not count. */
static void
add_table(struct type_search *search, Oid relid)
{
    HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    struct type_user *user = NULL;
    Oid row_type = InvalidOid;

    if (!HeapTupleIsValid(row))
        return;
    user = add_user(search, relid, ((Form_pg_class)GETSTRUCT(row))->relowner);
    row_type = ((Form_pg_class)GETSTRUCT(row))->reltype;
    ReleaseSysCache(row);
    if (user == NULL)
        return;
    search->tables = lappend_oid(search->tables, relid);
    if (OidIsValid(row_type)) {
        struct type_user *type = hash_search(search->users, &row_type, HASH_ENTER, NULL);

        type->owner = user->owner;
        type->is_limited = user->is_limited;
        search->types = lappend(search->types, type);
    }
}

/* Each column of a table is one dependency. Returns false at the limit. */
static bool
add_dependent(struct type_search *search, const struct type_user *type, Form_pg_depend depend)
{
    const struct type_user *known = hash_search(search->users, &depend->objid, HASH_FIND, NULL);

    if (known == NULL && depend->classid == RelationRelationId)
        add_table(search, depend->objid);
    else if (known == NULL && depend->classid == TypeRelationId)
        /* The array type of a type has the same owner. */
        add_type(search, depend->objid,
                 depend->deptype == DEPENDENCY_INTERNAL ? type->owner
                                                        : owner_of_type(depend->objid));
    known = hash_search(search->users, &depend->objid, HASH_FIND, NULL);
    return known == NULL || !known->is_limited || ++search->dependencies < DEPENDENCIES_MAX;
}

/* Returns false at the limit. */
static bool
add_dependents(struct type_search *search, const struct type_user *type)
{
    SysScanDesc scan;
    ScanKeyData keys[2];
    HeapTuple tuple;
    bool goes_on = true;

    ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(TypeRelationId));
    ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(type->oid));
    scan = systable_beginscan(search->depend, DependReferenceIndexId, true, NULL, 2, keys);
    while (goes_on && (tuple = systable_getnext(scan)) != NULL)
        goes_on = add_dependent(search, type, (Form_pg_depend)GETSTRUCT(tuple));
    systable_endscan(scan);
    return goes_on;
}

static void
search_users(struct type_search *search, const List *types)
{
    List *owners = NIL;
    ListCell *cell;

    foreach (cell, types)
        owners = list_append_unique_oid(owners, owner_of_type(lfirst_oid(cell)));
    search->owners = owners;
    foreach (cell, types)
        add_type(search, lfirst_oid(cell), owner_of_type(lfirst_oid(cell)));
    /* The loop appends to the list. */
    for (int i = 0; i < list_length(search->types) && search->dependencies < DEPENDENCIES_MAX; i++)
        if (!add_dependents(search, list_nth(search->types, i)))
            search->is_incomplete = true;
}

/*
 * tables_with_type(types oid[]) -> oid[]: the tables with a column that contains one of these
 * types, and the tables above them.
 */
Datum
clairon_tables_with_type(PG_FUNCTION_ARGS)
{
    List *types = oids_of_array(PG_GETARG_ARRAYTYPE_P(0));
    ArrayBuildState *result = initArrayResult(OIDOID, CurrentMemoryContext, false);
    struct type_search search = {
        .depend = table_open(DependRelationId, AccessShareLock),
        .users =
            oid_table_new("clairon type users", 64, sizeof(struct type_user), CurrentMemoryContext),
        .counts = oid_table_new("clairon type owners", 64, sizeof(struct owner_count),
                                CurrentMemoryContext)};
    ListCell *cell;

    search_users(&search, types);
    table_close(search.depend, AccessShareLock);
    if (search.is_incomplete)
        ereport(WARNING, (errmsg("could not reload all lists of live rules"),
                          errdetail("Other owners use the altered type in too many tables."),
                          errhint("Revoke USAGE on the type from PUBLIC.")));
    foreach (cell, add_above_or_below(NIL, search.tables, true, NULL))
        result = accumArrayResult(result, ObjectIdGetDatum(lfirst_oid(cell)), false, OIDOID,
                                  CurrentMemoryContext);
    PG_RETURN_DATUM(makeArrayResult(result, CurrentMemoryContext));
}
