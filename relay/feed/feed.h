/* feed.h: takes frames off a replication slot, has them stored, and confirms what is. */
#ifndef CLAIRON_FEED_FEED_H
#define CLAIRON_FEED_FEED_H

#include "base/buffer.h"
#include "base/config.h"
#include "base/rc.h"
#include "base/stats.h"

struct ev_loop;
struct feed;
struct store;

/* The store belongs to another database or slot, as was logged: a retry would not help. */
typedef void feed_refused(void *ctx);

/*
 * Connects, streams and starts over by itself, with backoff, until feed_close.
 * config and stats must outlive it.
 */
struct feed *feed_open(struct ev_loop *loop, const struct config *config, struct store *store,
                       struct stats *stats, feed_refused *refused, void *ctx);

/* Confirms what is stored and says goodbye to PostgreSQL. Accepts NULL. */
void feed_close(struct feed *feed);

/* After feed_close and store_close: answers of the store may come until then. Accepts NULL. */
void feed_free(struct feed *feed);

/*
 * Appends {"at":ms,"rules":[..]}, the rules as they were read within the last second; else
 * "rules":null, and they are read for the next call. RC_AGAIN: the slot is not streamed here.
 */
MUST_CHECK enum rc feed_rules(struct feed *feed, struct buffer *out);

/* "waiting", "connecting", "standby" (another relay has the slot) or "streaming". */
const char *feed_state_name(const struct feed *feed);

#endif
