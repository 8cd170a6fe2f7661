/* order.h: delivers the stream entries of several shards in commit order. */
#ifndef CLAIRON_STORE_ORDER_H
#define CLAIRON_STORE_ORDER_H

#include "store/connection/reply.h"
#include "store/entry.h"

/*
 * Each user reads at most two shards, shard 0 and the shard of the user, and receives their
 * notifications in commit order. A notification waits while the other shard has an older
 * undelivered notification: either the head of that shard's queue, or a notification that the field
 * `after` names and that was not added yet (shard_dependency_text). Retries and stream entries
 * without a commit wait only for earlier entries of the same stream. merge.h orders finite pages by
 * the same rules.
 */
struct order;

typedef void order_deliver(void *ctx, const struct entry *entry); /* valid during the call */

struct order *order_new(unsigned shards, order_deliver *deliver, void *ctx);
void order_free(struct order *order); /* accepts NULL */

/*
 * Drops all stream entries. Notifications of shard k up to stored[k] were already delivered.
 * has_changed[k]: shard k was emptied or rewound, so no notification waits for its earlier
 * positions.
 */
void order_begin(struct order *order, const struct position *stored, const bool *has_changed);

/* Drops the shard's undelivered stream entries, which are read again. */
void order_rewind(struct order *order, unsigned shard);

/* Drops the shard's stream entries. Other shards no longer wait for it. Not for shard 0. */
void order_leave(struct order *order, unsigned shard);
/*
 * Reverses order_leave. The stream is now read from a later entry on. Notifications of the shard up
 * to `stored` were not read, and their field `after` names notifications of shard 0 up to `after`.
 */
void order_join(struct order *order, unsigned shard, struct position stored, struct position after);
/*
 * True if commit order applies to the shard: all further entries of the shard and of shard 0 are
 * later than all entries that were delivered, or stored before order_join.
 */
bool order_has_joined(const struct order *order, unsigned shard);

/* Adds a reply with new entries of a shard's stream. The reply must live until order_release. */
void order_add(struct order *order, unsigned shard, const struct redisReply *entries);

/* Delivers all stream entries that are ready, and copies all other entries. */
void order_release(struct order *order, int64_t now_us);

/*
 * Finds a shard for which other shards have been waiting since `before_us` or longer. These shards
 * stop waiting until the shard adds a notification; the next order_release delivers their
 * notifications. Returns the shard, or -1 if there is none. Call the function until it returns -1.
 */
int order_skip_overdue(struct order *order, int64_t before_us);

/*
 * Returns the position up to which all notifications of the shard were added, or skipped after a
 * timeout.
 */
struct position order_seen(const struct order *order, unsigned shard);
/* True if the shard has enough stream entries in memory, so no more should be read. */
bool order_is_full(const struct order *order, unsigned shard);
/* True if a notification waits for an unread entry of the shard, which is then read regardless. */
bool order_is_awaited(const struct order *order, unsigned shard);
/* True if a notification waits for another shard. */
bool order_waits(const struct order *order);

/* Counts the shard's foreign entries, which are not notifications, since the last call. */
size_t order_foreign_entries(struct order *order, unsigned shard);
/* Counts the notifications that were delivered without their dependencies since the last call. */
size_t order_unordered(struct order *order);

#endif
