/* place.h: how far somebody has read of the streams that concern him. */
#ifndef CLAIRON_STORE_PLACE_H
#define CLAIRON_STORE_PLACE_H

#include "store/entry.h"

/* With a single shard all is in `shared`, and `own` stays zero. */
struct place {
    struct entry_id shared; /* in shard 0 */
    struct entry_id own;    /* in the shard of what is for him alone */
};

/* Of the two streams the one of this shard: he is asked about no third. */
static inline struct entry_id *
place_in(struct place *place, unsigned shard)
{
    return shard == 0 ? &place->shared : &place->own;
}

/* The entry is still to be read. */
static inline bool
place_is_before(const struct place *place, unsigned shard, struct entry_id id)
{
    return entry_id_less(shard == 0 ? place->shared : place->own, id);
}

/* Up to this entry, and never back. */
static inline void
place_pass(struct place *place, unsigned shard, struct entry_id id)
{
    struct entry_id *at = place_in(place, shard);

    if (entry_id_less(*at, id))
        *at = id;
}

/* Nothing is read at `from` that is not read here. */
static inline bool
place_reaches(struct place place, struct place from)
{
    return !entry_id_less(place.shared, from.shared) && !entry_id_less(place.own, from.own);
}

static inline bool
place_equal(struct place a, struct place b)
{
    return entry_id_equal(a.shared, b.shared) && entry_id_equal(a.own, b.own);
}

/* What is read at both. */
static inline struct place
place_min(struct place a, struct place b)
{
    return (struct place){entry_id_less(b.shared, a.shared) ? b.shared : a.shared,
                          entry_id_less(b.own, a.own) ? b.own : a.own};
}

/* What is read at one of them. */
static inline struct place
place_max(struct place a, struct place b)
{
    return (struct place){entry_id_less(a.shared, b.shared) ? b.shared : a.shared,
                          entry_id_less(a.own, b.own) ? b.own : a.own};
}

/* Of places in all shards, `heads`, those of a user whose own shard is `own`. */
static inline struct place
place_of(const struct entry_id *heads, unsigned own)
{
    return (struct place){heads[0], own > 0 ? heads[own] : (struct entry_id){0, 0}};
}

/* The other way round. What he knows nothing of is 0-0: nothing of it is read. */
static inline void
place_spread(struct place place, unsigned own, struct entry_id *ret_heads, unsigned shards)
{
    for (unsigned i = 1; i < shards; i++)
        ret_heads[i] = (struct entry_id){0, 0};
    ret_heads[0] = place.shared;
    if (own > 0)
        ret_heads[own] = place.own;
}

#endif
