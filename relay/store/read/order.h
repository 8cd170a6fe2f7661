/* order.h: puts what the streams of several shards answer into the order of the commits. */
#ifndef CLAIRON_STORE_ORDER_H
#define CLAIRON_STORE_ORDER_H

#include "store/connection/reply.h"
#include "store/position.h"

/*
 * A reader of shard 0 and another one is given the notes of both in the order of the commits; two
 * others have no common reader. A note is held while an earlier one may still come: one stands at
 * the head of the other stream, or has not come yet, as the field `after` of the note's entry
 * shows (shard_dependency.h). Copies, and entries of no commit, wait only for what stands before
 * them.
 */
struct order;

typedef void order_give(void *ctx, const struct entry *entry); /* a view, as long as the call */

struct order *order_new(unsigned shards, order_give *give, void *ctx);
void order_free(struct order *order); /* accepts NULL */

/* Forgets what it holds and waits for. Of shard k all notes up to stored[k] were given before. */
void order_begin(struct order *order, const struct position *stored);

/* What a shard's stream answered, each entry once: a view until order_release. */
void order_add(struct order *order, unsigned shard, const struct redisReply *entries);

/* Gives what may go, and keeps a copy of the rest. */
void order_release(struct order *order, int64_t now_us);

/*
 * Waits no more for a shard from which no note has come since `before_us` though some wait for it,
 * until one comes; the next order_release lets these go. Returns such a shard, call it again; -1:
 * there is none.
 */
int order_give_up(struct order *order, int64_t before_us);

/* Up to here all notes of the shard have come, or were given up. */
struct position order_seen(const struct order *order, unsigned shard);
/* It holds so much of this shard that no more is to be read .. */
bool order_is_full(const struct order *order, unsigned shard);
/* .. unless a note waits for one of this shard that has not come. */
bool order_is_awaited(const struct order *order, unsigned shard);
/* Some note waits. */
bool order_waits(const struct order *order);

/* Since the last call: entries of the shard that are no notifications of ours, and were skipped. */
size_t order_foreign_entries(struct order *order, unsigned shard);
/* Since the last call: notes that went without what they waited for. */
size_t order_unordered(struct order *order);

#endif
