/* order.h: delivers the stream entries of several shards in commit order. */
#ifndef CLAIRON_STORE_ORDER_H
#define CLAIRON_STORE_ORDER_H

#include "store/connection/reply.h"
#include "store/position.h"

/*
 * A user reads shard 0 and the shard of the user, and receives their notifications in commit order.
 * No user reads two other shards. A notification waits while an older notification of the other
 * shard is undelivered: it is the head of that queue, or the field `after` names it and it was not
 * added yet (shard_dependency.h). Retries and stream entries without a commit wait only for earlier
 * entries of the same stream. merge.h does the same for pages, which are finite.
 */
struct order;

typedef void order_deliver(void *ctx, const struct entry *entry); /* valid during the call */

struct order *order_new(unsigned shards, order_deliver *deliver, void *ctx);
void order_free(struct order *order); /* accepts NULL */

/*
 * Drops all stream entries. Notifications of shard k up to stored[k] were delivered before.
 * has_changed[k]: the shard was emptied or rewound, so earlier positions of it are not awaited.
 */
void order_begin(struct order *order, const struct position *stored, const bool *has_changed);

/* Drops the shard's stream entries. Other shards no longer wait for it. Not for shard 0. */
void order_leave(struct order *order, unsigned shard);
/*
 * Reverses order_leave, for a stream that is read from a later stream entry on. Earlier
 * notifications are the shard's notifications up to `stored`, and the notifications of shard 0 up
 * to `after`, which earlier entries of the shard name.
 */
void order_join(struct order *order, unsigned shard, struct position stored, struct position after);
/*
 * Whether commit order applies to the shard. Then all further stream entries of it and of shard 0
 * follow all entries that were delivered or stored before.
 */
bool order_has_joined(const struct order *order, unsigned shard);

/* Adds a reply with new entries of a shard's stream. It must live until order_release. */
void order_add(struct order *order, unsigned shard, const struct redisReply *entries);

/* Delivers all stream entries that are ready, and copies the other entries. */
void order_release(struct order *order, int64_t now_us);

/*
 * Finds a shard for which other shards have been waiting since `before_us` or longer. They stop
 * waiting until it adds a notification; the next order_release delivers them. Returns the shard;
 * -1: none. Call it until it returns -1.
 */
int order_skip_overdue(struct order *order, int64_t before_us);

/* All notifications of the shard up to here were added or skipped after a timeout. */
struct position order_seen(const struct order *order, unsigned shard);
/* Enough entries of the shard are in memory: read more only if order_is_awaited. */
bool order_is_full(const struct order *order, unsigned shard);
/* A notification waits for an entry of this shard that was not added yet. */
bool order_is_awaited(const struct order *order, unsigned shard);
/* A notification waits for another shard. */
bool order_waits(const struct order *order);

/* Counts the shard's foreign entries, which are not notifications, since the last call. */
size_t order_foreign_entries(struct order *order, unsigned shard);
/* Counts the notifications since the last call that were delivered without their dependencies. */
size_t order_unordered(struct order *order);

#endif
