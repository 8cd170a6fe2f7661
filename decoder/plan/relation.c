/* relation.c: cache the plans of each relation, and invalidate them. */
#include "plan/plan.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "replication/slot.h"
#include "utils/catcache.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/data.h"
#include "base/sandbox.h"
#include "decoder.h"
#include "rules/rules.h"

/*
 * Invalidation callbacks cannot be unregistered, so they need a static pointer. A backend decodes
 * one slot at a time.
 */
static struct decoder *current;
static bool registered;

/* The cache is emptied above this size: each entry takes a few kB, even for a dropped table. */
#define RELATIONS_MAX 4096

/* Entries of another catalog state are checked at their next use. */
static void
drop_all(struct decoder *decoder)
{
    decoder->catalog_number++;
}

/* The plan of a partition depends on its ancestors, whose OIDs the entry does not contain. */
static void
on_relation(Datum arg, Oid relid)
{
    struct relation_entry *entry;

    if (current == NULL)
        return;
    if (inheritance_outdate(current->inheritance, relid))
        drop_all(current);
    entry = hash_search(current->relations, &relid, HASH_FIND, NULL);
    if (entry != NULL)
        entry->checked = 0;
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
    HASHCTL sets = {.keysize = sizeof(struct digest),
                    .entrysize = sizeof(struct plan_set_entry),
                    .hcxt = decoder->context};

    decoder->relations =
        oid_table_new("clairon relations", 64, sizeof(struct relation_entry), decoder->context);
    decoder->plan_sets =
        hash_create("clairon plans", 64, &sets, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    dlist_init(&decoder->plan_sets_used);
    decoder->catalog_number = 1;
    decoder->inheritance = inheritance_new(decoder->context);
    decoder->rule_writes.context = decoder->context;
    current = decoder;
    decoder->on_delete.func = on_delete;
    decoder->on_delete.arg = decoder;
    MemoryContextRegisterResetCallback(decoder->context, &decoder->on_delete);
    if (registered)
        return;
    CacheRegisterRelcacheCallback(on_relation, (Datum)0);
    CacheRegisterSyscacheCallback(TYPEOID, on_catalog, (Datum)0);
    CacheRegisterSyscacheCallback(NAMESPACEOID, on_catalog, (Datum)0);
    CacheRegisterSyscacheCallback(PROCOID, on_catalog, (Datum)0);
    CacheRegisterSyscacheCallback(OPEROID, on_catalog, (Datum)0);
    CacheRegisterSyscacheCallback(ENUMOID, on_catalog, (Datum)0);
    CacheRegisterSyscacheCallback(COLLOID, on_catalog, (Datum)0);
    CacheRegisterSyscacheCallback(CASTSOURCETARGET, on_catalog, (Datum)0);
    registered = true;
}

/* The rules may differ: the next lookup determines which. */
static void
outdate(struct decoder *decoder, Oid relid)
{
    decoder->stamp.valid = false;
    if (decoder->rules != NULL)
        rules_outdate(decoder->rules, relid);
}

static void
outdate_rules(void *decoder, Oid relid)
{
    outdate(decoder, relid);
}

void
relation_forget_rules(struct decoder *decoder)
{
    outdate(decoder, InvalidOid);
}

/*
 * A transaction sees its own rules. The snapshot of the next one includes them, or not if it is
 * from before.
 */
static void
outdate_own(struct decoder *decoder)
{
    ListCell *cell;

    foreach (cell, decoder->own_relids) {
        struct relation_rules *rules =
            decoder->rules == NULL ? NULL : rules_of(decoder->rules, lfirst_oid(cell));

        outdate(decoder, lfirst_oid(cell));
        if (rules != NULL)
            rules->is_own = false;
    }
    list_free(decoder->own_relids);
    decoder->own_relids = NIL;
    decoder->own_xid = InvalidTransactionId;
}

static void
add_own(struct decoder *decoder, TransactionId xid, Oid relid)
{
    struct relation_rules *rules = NULL;
    MemoryContext old;

    if (decoder->own_xid != xid)
        outdate_own(decoder);
    decoder->own_xid = xid;
    outdate(decoder, relid);
    if (decoder->rules != NULL)
        rules = rules_of(decoder->rules, relid);
    if (rules != NULL && rules->is_own)
        return;
    if (rules != NULL)
        rules->is_own = true;
    old = MemoryContextSwitchTo(decoder->context);
    decoder->own_relids = lappend_oid(decoder->own_relids, relid);
    MemoryContextSwitchTo(old);
}

/*
 * Returns the relation of the rule before the change; InvalidOid: not known. An update without an
 * old row did not change the replica identity.
 */
static Oid
old_relation(Relation table, const ReorderBufferChange *change)
{
    HeapTuple old = compat_old_tuple(change);

    if (old != NULL)
        return rules_relation_of(old, table);
    if (change->action == REORDER_BUFFER_CHANGE_UPDATE &&
        bms_is_member(RULE_RELATION - FirstLowInvalidHeapAttributeNumber,
                      RelationGetIdentityKeyBitmap(table)))
        return rules_relation_of(compat_new_tuple(change), table);
    return InvalidOid;
}

static void
note_write(struct decoder *decoder, TransactionId xid, const ReorderBufferChange *change, Oid relid)
{
    rule_writes_add(&decoder->rule_writes, change->txn->xid, relid);
    add_own(decoder, xid, relid);
}

void
relation_rule_written(struct decoder *decoder, TransactionId xid, Relation table,
                      const ReorderBufferChange *change)
{
    HeapTuple new = compat_new_tuple(change);

    if (new != NULL)
        note_write(decoder, xid, change, rules_relation_of(new, table));
    if (change->action != REORDER_BUFFER_CHANGE_INSERT)
        note_write(decoder, xid, change, old_relation(table, change));
}

/* Returns the stamp of the current snapshot. Call it only inside a decoding callback. */
static struct snapshot_stamp
stamp_of_snapshot(TransactionId xid)
{
    Snapshot snapshot = GetCatalogSnapshot(InvalidOid);
    struct snapshot_stamp stamp = {.valid = true,
                                   .xmin = snapshot->xmin,
                                   .xmax = snapshot->xmax,
                                   .committed = snapshot->xcnt,
                                   .command = snapshot->curcid};

    if (snapshot->curcid != FirstCommandId)
        stamp.own = xid;
    return stamp;
}

static bool
stamps_equal(const struct snapshot_stamp *a, const struct snapshot_stamp *b)
{
    return a->valid && b->valid && a->xmin == b->xmin && a->xmax == b->xmax &&
           a->committed == b->committed && a->command == b->command && a->own == b->own;
}

/* True if more transactions have committed in b's catalog state. */
static bool
stamp_is_before(const struct snapshot_stamp *a, const struct snapshot_stamp *b)
{
    if (!a->valid || !b->valid)
        return false;
    if (a->xmax != b->xmax)
        return TransactionIdPrecedes(a->xmax, b->xmax);
    if (a->xmin != b->xmin)
        return TransactionIdPrecedes(a->xmin, b->xmin);
    return a->committed < b->committed;
}

/*
 * A transaction may be decoded after one that committed later, in an older catalog state.
 * PostgreSQL's caches are then too new, and later too old. That does no harm to the table of a
 * change, which the transaction has locked. Other objects, such as its ancestors and the labels of
 * enums, may have changed meanwhile.
 */
static void
note_past(struct decoder *decoder, const struct snapshot_stamp *stamp)
{
    bool is_past = stamp_is_before(stamp, &decoder->newest);

    if (is_past || decoder->is_past) {
        decoder->past_number++;
        ResetCatalogCaches();
    }
    if (!is_past)
        decoder->newest = *stamp;
    decoder->is_past = is_past;
}

void
relation_refresh_rules(struct decoder *decoder, TransactionId xid)
{
    struct snapshot_stamp stamp = stamp_of_snapshot(xid);
    Snapshot snapshot = GetCatalogSnapshot(InvalidOid);
    struct rule_set *rules;
    MemoryContext old;

    if (TransactionIdIsValid(decoder->own_xid) && decoder->own_xid != xid)
        outdate_own(decoder);
    if (stamps_equal(&decoder->stamp, &stamp))
        return;
    drop_all(decoder);
    note_past(decoder, &stamp);
    decoder->stamp.valid = false;
    decoder->rule_writes.horizon = MyReplicationSlot->effective_catalog_xmin;
    rule_writes_look(&decoder->rule_writes, snapshot, outdate_rules, decoder);
    old = MemoryContextSwitchTo(decoder->spare_context);
    MemoryContextReset(decoder->spare_context);
    rules = rules_read(decoder->rules, &decoder->rule_writes);
    MemoryContextSwitchTo(old);
    if (rules != decoder->rules) {
        MemoryContext outdated = decoder->rules_context;

        decoder->rules = rules;
        decoder->rules_context = decoder->spare_context;
        decoder->spare_context = outdated;
        MemoryContextReset(outdated);
        rule_writes_look(&decoder->rule_writes, snapshot, NULL, NULL);
    }
    decoder->stamp = stamp;
}

static void
forget_set(struct decoder *decoder, struct relation_entry *entry)
{
    struct plan_set *set = entry->set;

    entry->set = NULL;
    entry->checked = 0;
    if (set != NULL)
        plan_set_release(decoder, set);
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
        forget_set(decoder, entry);
        hash_search(decoder->relations, &entry->relid, HASH_REMOVE, NULL);
    }
}

/* Evaluation may add to tracked memory. Above the limit, the owner's plans are prepared again. */
static void
release_over_budget(struct decoder *decoder)
{
    Oid owner = sandbox_over_budget_owner(decoder->sandbox);
    struct account *account;

    if (!OidIsValid(owner))
        return;
    account = account_of(decoder->accounts, owner);
    while (account->memory_bytes > decoder->accounts->limits.memory_bytes)
        if (!plan_release(decoder, NULL, account))
            break;
}

static struct relation_entry *
find_entry(struct decoder *decoder, Oid relid)
{
    struct relation_entry *entry = hash_search(decoder->relations, &relid, HASH_FIND, NULL);
    bool found;

    if (entry != NULL)
        return entry;
    limit_entries(decoder);
    entry = hash_search(decoder->relations, &relid, HASH_ENTER, &found);
    MemSet(entry, 0, sizeof(*entry));
    entry->relid = relid;
    return entry;
}

/* True for plans that were not prepared for lack of time, which the owner has again. */
static bool
has_time_again(struct decoder *decoder, const struct plan_set *set)
{
    return set != NULL && set->lacks_time && account_may_prepare(decoder->accounts, set->account);
}

/*
 * Finds or prepares the plans. The old set is released last: it is usually the new one.
 *
 * `checked` is set first: an invalidation while the plans are prepared must reset it.
 */
static void
check_entry(struct decoder *decoder, struct relation_entry *entry, Relation relation)
{
    struct plan_set *old = entry->set;
    struct plan_set *set;

    entry->checked = decoder->catalog_number;
    PG_TRY();
    {
        set = plan_relation(decoder, relation);
    }
    PG_CATCH();
    {
        entry->checked = 0;
        PG_RE_THROW();
    }
    PG_END_TRY();
    if (set != NULL)
        set->entry_count++;
    /* Preparing may have evicted the old set. */
    if (old != NULL && entry->set == old)
        plan_set_release(decoder, old);
    entry->set = set;
}

struct plan_set *
relation_look_up(struct decoder *decoder, Relation relation, TransactionId xid)
{
    Oid relid = RelationGetRelid(relation);
    struct relation_entry *entry;

    relation_refresh_rules(decoder, xid);
    release_over_budget(decoder);
    if (inheritance_limit(decoder->inheritance))
        drop_all(decoder);
    entry = decoder->last_entry;
    if (entry == NULL || entry->relid != relid)
        entry = decoder->last_entry = find_entry(decoder, relid);
    if (entry->checked != decoder->catalog_number || has_time_again(decoder, entry->set))
        check_entry(decoder, entry, relation);
    return entry->set;
}
