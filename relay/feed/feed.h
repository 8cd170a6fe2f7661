/* feed.h: reads frames from a replication slot, stores them, and confirms stored WAL. */
#ifndef CLAIRON_FEED_FEED_H
#define CLAIRON_FEED_FEED_H

#include <stdbool.h>

#include "base/memory.h"
#include "base/config.h"
#include "base/rc.h"
#include "base/stats.h"

struct ev_loop;
struct feed;
struct store;

/*
 * The state of the feed for /readyz, in memory that all workers share: one of them runs the feed,
 * and any of them responds for the relay.
 */
enum feed_availability {
    FEED_OFF,      /* the relay lacks the role */
    FEED_DOWN,     /* not connected to PostgreSQL, or preparing to stream */
    FEED_STANDBY,  /* another relay reads the slot */
    FEED_STALLED,  /* streaming from a standby that receives or replays no WAL */
    FEED_AVAILABLE /* streaming */
};
#define FEED_REASON_MAX 512
struct feed_report {
    enum feed_availability availability;
    bool has_slot; /* the slot has existed, so that no change is lost without a gap */
    char reason[FEED_REASON_MAX]; /* why it is down or stalled, as in the log; else "" */
};

/* "off", "down", "standby", "stalled" or "streaming". */
const char *feed_availability_name(enum feed_availability availability);

/* The store belongs to another database or slot. Already logged; a retry cannot succeed. */
typedef void feed_rejected(void *ctx);

/*
 * Connects, streams, and reconnects with backoff until feed_close. config, stats and report must
 * outlive the feed.
 */
struct feed *feed_open(struct ev_loop *loop, const struct config *config, struct store *store,
                       struct stats *stats, struct feed_report *report, feed_rejected *rejected,
                       void *ctx);

/* Confirms the stored WAL position and closes the replication connection. Accepts NULL. */
void feed_close(struct feed *feed);

/* Call it after feed_close and store_close, because an open store may call back. Accepts NULL. */
void feed_free(struct feed *feed);

/*
 * Appends {"at":ms,"rules":[...]} if the rules were read within the last second. Otherwise appends
 * "rules":null and queries the rules for a later call. RC_AGAIN: this process does not stream the
 * slot.
 */
MUST_CHECK enum rc feed_rules(struct feed *feed, struct buffer *out);

#endif
