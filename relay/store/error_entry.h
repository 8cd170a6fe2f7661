/* error_entry.h: one entry of the error log. */
#ifndef CLAIRON_STORE_ERROR_ENTRY_H
#define CLAIRON_STORE_ERROR_ENTRY_H

#include "store/entry.h"
#include "store/store.h"

/* Points into the store's reply. */
struct error_entry {
    struct entry_id entry;
    struct bytes id;
    struct bytes reason;
    struct bytes attempts;
    struct bytes users; /* a JSON array */
    struct bytes data;
    struct bytes route; /* the header of a notification's frame, or empty */
};

/*
 * Returns the shard whose error log may have an entry with this id. With several shards,
 * delivery.lua encodes the shard in the id. Any other id maps to an arbitrary shard.
 */
static inline unsigned
error_entry_shard(struct entry_id id, unsigned shard_count)
{
    return (unsigned)(id.seq % STORE_SHARDS_MAX) % shard_count;
}

/* Reads a row of the error log. RC_BAD: invalid row. */
struct redisReply;
MUST_CHECK enum rc error_entry_read(const struct redisReply *row, struct error_entry *ret_entry);

#endif
