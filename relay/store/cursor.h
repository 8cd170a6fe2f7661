/* cursor.h: the cursor of a user in the two streams that the user reads. */
#ifndef CLAIRON_STORE_CURSOR_H
#define CLAIRON_STORE_CURSOR_H

#include "store/entry.h"

/*
 * A user reads two streams: shard 0 and the user's own shard. With a single shard, `own` stays
 * zero.
 */
struct cursor {
    struct entry_id shared; /* cursor in shard 0 */
    struct entry_id own;    /* cursor in the user's own shard */
};

/*
 * Returns the cursor in this shard. A user reads only two shards, so any number other than 0 means
 * the user's own shard.
 */
static inline struct entry_id *
cursor_in(struct cursor *cursor, unsigned shard)
{
    return shard == 0 ? &cursor->shared : &cursor->own;
}

/* True if the stream entry is unread. */
static inline bool
cursor_is_before(const struct cursor *cursor, unsigned shard, struct entry_id id)
{
    return entry_id_less(shard == 0 ? cursor->shared : cursor->own, id);
}

/* Advances the cursor to this stream entry, never backwards. */
static inline void
cursor_advance(struct cursor *cursor, unsigned shard, struct entry_id id)
{
    struct entry_id *at = cursor_in(cursor, shard);

    if (entry_id_less(*at, id))
        *at = id;
}

/* True if every stream entry read at `from` is also read at `cursor`. */
static inline bool
cursor_reaches(struct cursor cursor, struct cursor from)
{
    return !entry_id_less(cursor.shared, from.shared) && !entry_id_less(cursor.own, from.own);
}

static inline bool
cursor_equal(struct cursor a, struct cursor b)
{
    return entry_id_equal(a.shared, b.shared) && entry_id_equal(a.own, b.own);
}

/* Returns a cursor that covers the stream entries read at both cursors. */
static inline struct cursor
cursor_min(struct cursor a, struct cursor b)
{
    return (struct cursor){entry_id_less(b.shared, a.shared) ? b.shared : a.shared,
                           entry_id_less(b.own, a.own) ? b.own : a.own};
}

/* Returns a cursor that covers the stream entries read at either cursor. */
static inline struct cursor
cursor_max(struct cursor a, struct cursor b)
{
    return (struct cursor){entry_id_less(a.shared, b.shared) ? b.shared : a.shared,
                           entry_id_less(a.own, b.own) ? b.own : a.own};
}

/* Returns the cursor of a user with this own shard. `heads` contains one id per shard. */
static inline struct cursor
cursor_from_heads(const struct entry_id *heads, unsigned own)
{
    return (struct cursor){heads[0], own > 0 ? heads[own] : (struct entry_id){0, 0}};
}

/* Reverses cursor_from_heads. The id is 0-0 for a shard that the user does not read. */
static inline void
cursor_to_heads(struct cursor cursor, unsigned own, struct entry_id *ret_heads, unsigned shards)
{
    for (unsigned i = 1; i < shards; i++)
        ret_heads[i] = (struct entry_id){0, 0};
    ret_heads[0] = cursor.shared;
    if (own > 0)
        ret_heads[own] = cursor.own;
}

#endif
