/* relation.c: cache the plans of each relation, and invalidate them. */
#include "plan/relation.h"

#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "condition/sandbox.h"
#include "decoder.h"

/*
 * Invalidation callbacks cannot be unregistered, so they need a static pointer. A backend decodes
 * one slot at a time.
 */
static struct decoder *current;
static bool registered;

/* The cache is emptied above this size: each entry takes a few kB, even for a dropped table. */
#define RELATIONS_MAX 4096

static void
drop_all(struct decoder *decoder)
{
    HASH_SEQ_STATUS sequence;
    struct relation_entry *entry;

    hash_seq_init(&sequence, decoder->relations);
    while ((entry = hash_seq_search(&sequence)) != NULL)
        entry->valid = false;
}

/* The plan of a partition depends on its ancestors, whose OIDs the entry does not contain. */
static void
on_relation(Datum arg, Oid relid)
{
    HASH_SEQ_STATUS sequence;
    struct relation_entry *entry;

    if (current == NULL)
        return;
    if (!OidIsValid(relid)) {
        drop_all(current);
        return;
    }
    entry = hash_search(current->relations, &relid, HASH_FIND, NULL);
    if (entry != NULL)
        entry->valid = false;
    hash_seq_init(&sequence, current->relations);
    while ((entry = hash_seq_search(&sequence)) != NULL)
        if (entry->has_ancestors)
            entry->valid = false;
}

static void
on_catalog(Datum arg, int cache, uint32 hash)
{
    if (current != NULL)
        drop_all(current);
}

/* The decoder's memory is deleted at shutdown and after an error: callbacks must not use it. */
static void
on_delete(void *decoder)
{
    if (current == decoder)
        current = NULL;
}

void
relation_setup(struct decoder *decoder)
{
    HASHCTL control = {.keysize = sizeof(Oid),
                       .entrysize = sizeof(struct relation_entry),
                       .hcxt = decoder->context};

    decoder->relations =
        hash_create("clairon relations", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    current = decoder;
    decoder->on_delete.func = on_delete;
    decoder->on_delete.arg = decoder;
    MemoryContextRegisterResetCallback(decoder->context, &decoder->on_delete);
    if (registered)
        return;
    CacheRegisterRelcacheCallback(on_relation, (Datum)0);
    CacheRegisterSyscacheCallback(TYPEOID, on_catalog, (Datum)0);
    CacheRegisterSyscacheCallback(NAMESPACEOID, on_catalog, (Datum)0);
    registered = true;
}

void
relation_refresh_rules(struct decoder *decoder, TransactionId xid)
{
    struct snapshot_stamp stamp = rules_stamp(xid);
    struct rule_set *rules;
    MemoryContext old;

    if (rules_stamp_equal(&decoder->stamp, &stamp))
        return;
    drop_all(decoder);
    decoder->stamp.valid = false;
    old = MemoryContextSwitchTo(decoder->spare_context);
    MemoryContextReset(decoder->spare_context);
    rules = rules_read(decoder->rules);
    MemoryContextSwitchTo(old);
    if (rules != decoder->rules) {
        MemoryContext outdated = decoder->rules_context;

        decoder->rules = rules;
        decoder->rules_context = decoder->spare_context;
        decoder->spare_context = outdated;
        MemoryContextReset(outdated);
    }
    decoder->stamp = stamp;
}

static void
limit_entries(struct decoder *decoder)
{
    HASH_SEQ_STATUS sequence;
    struct relation_entry *entry;

    if (hash_get_num_entries(decoder->relations) < RELATIONS_MAX)
        return;
    decoder->last_entry = NULL;
    hash_seq_init(&sequence, decoder->relations);
    while ((entry = hash_seq_search(&sequence)) != NULL) {
        if (entry->context != NULL)
            MemoryContextDelete(entry->context);
        hash_search(decoder->relations, &entry->relid, HASH_REMOVE, NULL);
    }
}

/*
 * Evaluation may add to tracked memory. Above the limit, the owner's conditions are freed and
 * prepared again.
 */
static void
release_over_budget(struct decoder *decoder)
{
    Oid owner = sandbox_over_budget_owner(decoder->sandbox);

    if (OidIsValid(owner))
        (void)plan_release(decoder, NULL, owner);
}

struct relation_entry *
relation_look_up(struct decoder *decoder, Relation relation, TransactionId xid)
{
    Oid relid = RelationGetRelid(relation);
    struct relation_entry *entry;
    bool found;

    relation_refresh_rules(decoder, xid);
    release_over_budget(decoder);
    entry = decoder->last_entry;
    if (entry == NULL || entry->relid != relid)
        entry = hash_search(decoder->relations, &relid, HASH_FIND, NULL);
    if (entry != NULL && entry->valid) {
        decoder->last_entry = entry;
        return entry;
    }
    if (entry == NULL)
        limit_entries(decoder);
    entry = hash_search(decoder->relations, &relid, HASH_ENTER, &found);
    if (!found) {
        MemSet(entry, 0, sizeof(*entry));
        entry->relid = relid;
    }
    if (entry->context == NULL)
        entry->context =
            AllocSetContextCreate(decoder->context, "clairon relation", ALLOCSET_SMALL_SIZES);
    else
        MemoryContextReset(entry->context);
    entry->plan_count = 0;
    /* Set `valid` first: an invalidation during plan_relation must reset it. */
    entry->valid = true;
    PG_TRY();
    {
        plan_relation(decoder, entry, relation);
    }
    PG_CATCH();
    {
        entry->valid = false;
        PG_RE_THROW();
    }
    PG_END_TRY();
    return entry;
}
