/* inheritance.c: find the ancestors of a table: their rules apply to its rows. */
#include "rules/rules.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_inherits.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* Above these numbers of tables, and of all their parents, everything is forgotten. */
#define TABLES_MAX 16384
#define PARENTS_MAX (1024 * 1024)

/* A table, and its parents as far as they are known. */
struct node {
    Oid relid;     /* hash key */
    uint64 state;  /* the catalog state for which the parents were read; 0: outdated */
    uint64 search; /* the last search that found the table */
    uint64 past;   /* of inheritance_is_past */
    bool is_parent;
    List *parents;
};

struct inheritance {
    MemoryContext nodes_context; /* contains `nodes` and their lists */
    HTAB *nodes;
    int64 parent_count;
    uint64 outdated; /* number of calls of inheritance_outdate */
    uint64 search;
};

/* Forgets all tables. */
static void
reset(struct inheritance *inheritance)
{
    MemoryContextReset(inheritance->nodes_context);
    inheritance->nodes =
        oid_table_new("clairon inheritance", 64, sizeof(struct node), inheritance->nodes_context);
    inheritance->parent_count = 0;
}

struct inheritance *
inheritance_new(MemoryContext context)
{
    struct inheritance *inheritance = MemoryContextAllocZero(context, sizeof(*inheritance));

    inheritance->nodes_context =
        AllocSetContextCreate(context, "clairon inheritance", ALLOCSET_DEFAULT_SIZES);
    reset(inheritance);
    return inheritance;
}

bool
inheritance_outdate(struct inheritance *inheritance, Oid relid)
{
    HASH_SEQ_STATUS sequence;
    struct node *node;

    inheritance->outdated++;
    if (OidIsValid(relid)) {
        node = hash_search(inheritance->nodes, &relid, HASH_FIND, NULL);
        if (node != NULL)
            node->state = 0;
        return node != NULL && node->is_parent;
    }
    hash_seq_init(&sequence, inheritance->nodes);
    while ((node = hash_seq_search(&sequence)) != NULL)
        node->state = 0;
    return true;
}

static struct node *
node_of(struct inheritance *inheritance, Oid relid)
{
    bool found;
    struct node *node = hash_search(inheritance->nodes, &relid, HASH_ENTER, &found);

    if (!found)
        *node = (struct node){.relid = relid};
    return node;
}

/* An invalidation during the scan outdates the result. */
static void
read_parents(struct inheritance *inheritance, struct node *node, uint64 state)
{
    Relation inherits = table_open(InheritsRelationId, AccessShareLock);
    uint64 outdated = inheritance->outdated;
    List *parents = NIL;
    SysScanDesc scan;
    ScanKeyData key;
    HeapTuple tuple;
    MemoryContext old;

    ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(node->relid));
    scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
    while ((tuple = systable_getnext(scan)) != NULL) {
        Form_pg_inherits link = (Form_pg_inherits)GETSTRUCT(tuple);

        /* New snapshots no longer include a partition that is being detached. */
        if (!link->inhdetachpending && list_length(parents) <= ANCESTORS_MAX)
            parents = lappend_oid(parents, link->inhparent);
    }
    systable_endscan(scan);
    table_close(inherits, AccessShareLock);
    inheritance->parent_count += list_length(parents) - list_length(node->parents);
    list_free(node->parents);
    old = MemoryContextSwitchTo(inheritance->nodes_context);
    node->parents = list_copy(parents);
    MemoryContextSwitchTo(old);
    node->state = inheritance->outdated == outdated ? state : 0;
    list_free(parents);
}

bool
inheritance_limit(struct inheritance *inheritance)
{
    if (hash_get_num_entries(inheritance->nodes) < TABLES_MAX &&
        inheritance->parent_count < PARENTS_MAX)
        return false;
    reset(inheritance);
    return true;
}

List *
ancestors_of(struct inheritance *inheritance, Oid relid, uint64 state, bool again)
{
    struct node *node = node_of(inheritance, relid);
    List *above = NIL;
    ListCell *cell;

    node->search = ++inheritance->search;
    for (int i = 0;; i++) {
        if (node->state == 0 || (again && node->state != state))
            read_parents(inheritance, node, state);
        foreach (cell, node->parents) {
            struct node *parent = node_of(inheritance, lfirst_oid(cell));

            if (parent->search == inheritance->search || list_length(above) > ANCESTORS_MAX)
                continue;
            parent->search = inheritance->search;
            parent->is_parent = true;
            above = lappend_oid(above, parent->relid);
        }
        if (i == list_length(above))
            return above;
        node = node_of(inheritance, list_nth_oid(above, i));
    }
}

bool
inheritance_is_past(struct inheritance *inheritance, Oid relid, uint64 number)
{
    struct node *node = node_of(inheritance, relid);
    bool is_past = node->past != number;

    node->past = number;
    return is_past;
}
