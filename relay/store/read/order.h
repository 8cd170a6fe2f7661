/* order.h: delivers the entries of several shards in commit order. */
#ifndef CLAIRON_STORE_ORDER_H
#define CLAIRON_STORE_ORDER_H

#include "store/connection/reply.h"
#include "store/position.h"

/*
 * A user reads shard 0 and its own shard, and gets the notifications of both in commit order. No
 * user reads two other shards. A notification waits while an older one of the other shard is
 * missing. It is missing if it is the head of that queue, or if the field `after` names it and it
 * was not added yet (shard_dependency.h). Retries, and entries without a commit, wait only for the
 * entries before them in their own stream. See merge.h for pages, which end.
 */
struct order;

typedef void order_deliver(void *ctx,
                           const struct entry *entry); /* a view, valid during the call */

struct order *order_new(unsigned shards, order_deliver *deliver, void *ctx);
void order_free(struct order *order); /* accepts NULL */

/* Drops all entries. Notifications of shard k up to stored[k] were delivered before. */
void order_begin(struct order *order, const struct position *stored);

/* Drops the shard's entries. The others no longer wait for it. Not for shard 0. */
void order_leave(struct order *order, unsigned shard);
/*
 * The reverse, for a stream that is read from some entry on. `stored`: the shard's notifications up
 * to here precede it. `after`: so do those of shard 0 that the earlier entries name.
 */
void order_join(struct order *order, unsigned shard, struct position stored, struct position after);
/*
 * Whether commit order applies to the shard: all entries of it and of shard 0 that are delivered
 * from now on follow those that were delivered or stored before.
 */
bool order_has_joined(const struct order *order, unsigned shard);

/* Adds a reply of a shard's stream, each entry once. It must live until order_release. */
void order_add(struct order *order, unsigned shard, const struct redisReply *entries);

/* Delivers all entries that are ready, and copies the rest. */
void order_release(struct order *order, int64_t now_us);

/*
 * Finds a shard that others have been waiting for since `before_us` or longer. They stop waiting
 * until it adds a notification; the next order_release delivers them. Returns the shard, -1: none.
 * Call it until it returns -1.
 */
int order_skip_overdue(struct order *order, int64_t before_us);

/* All notifications of the shard up to here were added or skipped after a timeout. */
struct position order_seen(const struct order *order, unsigned shard);
/* The shard has enough entries in memory: do not read more of it .. */
bool order_is_full(const struct order *order, unsigned shard);
/* .. unless a notification waits for one of this shard that was not added yet. */
bool order_is_awaited(const struct order *order, unsigned shard);
/* A notification waits for another shard. */
bool order_waits(const struct order *order);

/* Counts since the last call: entries of the shard that are not notifications and were skipped. */
size_t order_foreign_entries(struct order *order, unsigned shard);
/* Counts since the last call: notifications delivered without the ones they waited for. */
size_t order_unordered(struct order *order);

#endif
