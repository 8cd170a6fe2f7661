/*
 * feed_parts.h: struct feed, built from parts that own their state: the connection, the slot, the
 * batch and those in flight, the copy of memberships, confirmation, feedback, and side queries.
 *
 * Calls go one way: feed.c (events), feed_connect.c (next step), then feed_slot.c, feed_history.c
 * and feed_members.c (the steps), then feed_stream.c and feed_command.c, then feed_state.c (the
 * only way back to WAITING), then the parts, which know only their own state.
 */
#ifndef CLAIRON_FEED_FEED_PARTS_H
#define CLAIRON_FEED_FEED_PARTS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "feed/feed.h"
#include "feed/feed_batch.h"
#include "feed/feed_queries.h"
#include "feed/feed_confirm.h"
#include "feed/feed_members.h"
#include "feed/feed_slot.h"
#include "postgres/connect.h"
#include "postgres/libpq.h"
#include "store/store.h"

#define FEED_CONNECT_TIMEOUT_S 15.0
#define FEED_COMMAND_MAX 2048

/*
 * WAITING (for the retry timer or the store) -> CONNECTING -> SETTING the session -> IDENTIFYING
 * the server -> FINDING the slot [-> DROPPING it, if it is lost] -> ACQUIRING its progress from
 * the store [-> CREATING it, ACQUIRING again] [-> COPYING memberships] -> STARTING replication ->
 * REACQUIRING (now no other relay can read the slot) -> STREAMING.
 *
 * READING_HISTORY and RESETTING follow ACQUIRING if the progress is of another timeline, or if the
 * slot is gone or does not continue where the progress ends. feed_restart leads from each state to
 * WAITING.
 */
enum feed_state {
    FEED_WAITING,
    FEED_CONNECTING,
    FEED_SETTING,
    FEED_IDENTIFYING,
    FEED_FINDING,
    FEED_DROPPING,
    FEED_CREATING,
    FEED_ACQUIRING,
    FEED_READING_HISTORY,
    FEED_RESETTING,
    FEED_COPYING,
    FEED_STARTING,
    FEED_REACQUIRING,
    FEED_STREAMING
};

/* The connection to PostgreSQL and its retry timer. */
struct feed_link {
    struct backoff backoff;
    ev_timer retry;
    ev_timer timeout; /* limits every state before STREAMING */
    ev_io readable;
    ev_io writable;
    struct postgres_connect connect;
    PGconn *conn;     /* NULL: not connected */
    PGresult *result; /* of the running command, until it is complete */
    unsigned attempt; /* identifies the connection for late replies of the store */
};

struct feed {
    enum feed_state state;
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct store_listener store_listener;
    struct stats *stats;
    feed_rejected *rejected; /* with rejected_ctx */
    void *rejected_ctx;
    bool closing;
    /* resumes reading in COPYING and STREAMING once the store has answered */
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
};

/* The context of a request to the store, with the connection it was made for. */
struct feed_ticket {
    struct feed *feed;
    unsigned attempt;
};

/* Frees the ticket. NULL: the reply belongs to an earlier connection or a closed feed. */
static inline struct feed *
feed_ticket_redeem(struct feed_ticket *ticket)
{
    struct feed *feed = ticket->feed;
    bool counts = ticket->attempt == feed->link.attempt && !feed->closing;

    free(ticket);
    return counts ? feed : NULL;
}

/* feed_state.c: state changes */
/* Logs the reason with fields, drops the connection and retries after the backoff. */
#define feed_restart(feed, ...)                                                                    \
    feed_restart_with((feed), LOG_FIRST(__VA_ARGS__, LOG_END),                                     \
                      (const struct log_field[]){LOG_REST(__VA_ARGS__, LOG_END)})
void feed_restart_with(struct feed *feed, const char *reason, const struct log_field *fields);
/* The same for an error of libpq or the server. `hint` may be "". */
void feed_fail(struct feed *feed, const char *what, const char *message, const char *hint);
void feed_set_state(struct feed *feed, enum feed_state state);
void feed_drop_connection(struct feed *feed);
/* Flushes libpq's output buffer, now or when the socket is writable. */
void feed_flush_socket(struct feed *feed);

/* feed_command.c: commands to the server, and the progress from the store */
/* Sends a command. Its result arrives in feed_on_result, in `state`. */
void feed_send_command(struct feed *feed, enum feed_state state, const char *command);
/* Requests the slot's progress from the store; then calls slot.on_acquired. */
void feed_acquire(struct feed *feed, enum feed_state state);
void feed_start_replication(struct feed *feed);

/* feed_connect.c */
void feed_connect(struct feed *feed);
void feed_on_result(struct feed *feed);

/* feed_slot.c */
void feed_query_slot(struct feed *feed);
void feed_on_slot(struct feed *feed, const PGresult *result);
void feed_create_slot(struct feed *feed);
void feed_on_slot_created(struct feed *feed, const PGresult *result);
void feed_on_slot_dropped(struct feed *feed);
void feed_enter_standby(struct feed *feed);
void feed_fail_lost_slot(struct feed *feed); /* it is lost, and create_slot is off */
uint64_t feed_lsn_read(const char *text);    /* PostgreSQL's text form; 0: invalid */

/* feed_stream.c */
void feed_stream_start(struct feed *feed);
void feed_stream_pump(struct feed *feed);
void feed_stream_flush(struct feed *feed); /* sends the batch unless it is empty */
/* if nothing is in flight, confirms WAL without changes */
void feed_stream_idle(struct feed *feed);
/* Handles a message of frames and owns its bytes (malloc). False: the feed was restarted. */
bool feed_stream_receive(struct feed *feed, char *owned, struct bytes packet);
void feed_send_feedback(struct feed *feed);
/* Updates the lag metrics. */
void feed_update_lag(struct feed *feed);

/* feed_history.c */
/* If the slot is missing or lost although the store has progress: resets it and returns true. */
bool feed_reset_if_slot_lost(struct feed *feed);
/* The same if the slot starts beyond the WAL position recorded in the store. */
bool feed_reset_if_slot_advanced(struct feed *feed);
/* Compares the progress with the server's timeline history and resets the store's progress. */
void feed_on_history(struct feed *feed, const char *history);

#endif
