/* plan_condition.c: prepare the conditions of relations, within the memory of their owner. */
#include "clairon.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "bounds.h"

static bool
has_condition_of(const struct relation_entry *entry, Oid owner)
{
    for (int i = 0; i < entry->plan_count; i++)
        if (entry->plans[i].condition != NULL &&
            condition_owner(entry->plans[i].condition) == owner)
            return true;
    return false;
}

bool
plan_release(struct decoder *decoder, const struct relation_entry *except, Oid owner)
{
    HASH_SEQ_STATUS sequence;
    struct relation_entry *entry;
    bool found = false;

    hash_seq_init(&sequence, decoder->relations);
    while ((entry = hash_seq_search(&sequence)) != NULL) {
        if (entry == except || !has_condition_of(entry, owner))
            continue;
        entry->valid = false;
        entry->plan_count = 0;
        MemoryContextReset(entry->context);
        found = true;
    }
    return found;
}

/* When the owner's conditions take too much memory, those of other relations are freed for it. */
struct condition *
plan_condition(struct decoder *decoder, const struct relation_entry *entry, const struct rule *rule,
               Relation source, const int *map, Relation decoded)
{
    Oid owner = source->rd_rel->relowner;
    int natts = RelationGetDescr(source)->natts;
    struct condition *condition;

    do {
        condition = condition_new(decoder->bounds, rule, map, natts, decoded, owner);
    } while (bounds_overdrawn_owner(decoder->bounds) == owner &&
             plan_release(decoder, entry, owner));
    return condition;
}
