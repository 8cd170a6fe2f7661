/*
 * feed_parts.h: struct feed. Each part has separate state: the connection, the slot, the batch, the
 * batches in flight, the copy of memberships, confirmation, feedback, and side queries. The header
 * of each part declares its struct and its functions.
 *
 * Calls go in one direction: feed.c (events), feed_connect.c (next step), then feed_slot.c,
 * feed_history.c and feed_members.c (the steps), then feed_stream.c and feed_command.c, then
 * feed_state.c (the only transition back to WAITING), then the parts, which use only their own
 * state.
 */
#ifndef CLAIRON_FEED_FEED_PARTS_H
#define CLAIRON_FEED_FEED_PARTS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/config.h"
#include "base/stats.h"
#include "feed/feed.h"
#include "feed/feed_batch.h"
#include "feed/feed_confirm.h"
#include "feed/feed_denials.h"
#include "feed/feed_members.h"
#include "feed/feed_rules.h"
#include "feed/feed_slot.h"
#include "feed/feed_standby.h"
#include "feed/feed_state.h"
#include "postgres/connect.h"
#include "postgres/libpq.h"
#include "store/store.h"

#define FEED_CONNECT_TIMEOUT_S 15.0

/* The connection to PostgreSQL and its retry timer. */
struct feed_link {
    struct backoff backoff;
    ev_timer retry;
    ev_timer timeout; /* limits every state before STREAMING */
    ev_io readable;
    ev_io writable;
    struct postgres_connect connect;
    PGconn *conn;     /* NULL: not connected */
    PGresult *result; /* result of the running command, until it is complete */
    unsigned attempt; /* number of this connection; detects late replies of the store */
};

struct feed {
    enum feed_state state;
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct store_listener store_listener;
    struct stats *stats;
    struct feed_report *report;
    feed_rejected *rejected; /* callback, called with rejected_ctx */
    void *rejected_ctx;
    bool closing;
    /* resumes reading in COPYING and STREAMING once the store has replied */
    void (*resume_reading)(struct feed *feed);
    struct feed_link link;
    struct feed_slot slot;
    struct feed_batch batch;
    struct feed_flights flights;
    struct feed_copy copy;
    struct feed_confirm confirm;
    struct feed_feedback feedback;
    struct feed_primary primary;
    struct feed_standby standby;
    struct feed_rules rules;
    struct feed_denials denials;
};

/* Context of a store request: the feed, and its connection number when the request was sent. */
struct feed_ticket {
    struct feed *feed;
    unsigned attempt;
};

/*
 * Frees the ticket and returns its feed. NULL: the reply belongs to an earlier connection or a
 * closed feed.
 */
static inline struct feed *
feed_ticket_redeem(struct feed_ticket *ticket)
{
    struct feed *feed = ticket->feed;
    bool counts = ticket->attempt == feed->link.attempt && !feed->closing;

    free(ticket);
    return counts ? feed : NULL;
}

#endif
