/*
 * feed_parts.h: the feed, made of the parts that own its state: the link, the slot, the batch and
 * those in flight, the copy of memberships, confirmation, feedback, and queries beside the stream.
 *
 * The files call one way: feed.c (life and events) above feed_connect.c (which step is next) above
 * feed_slot.c, feed_history.c, feed_members.c (the steps), above feed_stream.c and feed_command.c,
 * above feed_state.c (the only way back to WAITING), above the parts, which know only their own
 * state.
 */
#ifndef CLAIRON_FEED_FEED_PARTS_H
#define CLAIRON_FEED_FEED_PARTS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/stats.h"
#include "feed/feed.h"
#include "feed/feed_batch.h"
#include "feed/feed_beside.h"
#include "feed/feed_confirm.h"
#include "feed/feed_errors.h"
#include "feed/feed_feedback.h"
#include "feed/feed_link.h"
#include "feed/feed_members.h"
#include "feed/feed_session.h"
#include "feed/feed_slot.h"
#include "store/store.h"

/*
 * WAITING (for the retry timer, or for the store) -> CONNECTING -> SETTING what the session goes by
 * -> IDENTIFYING -> FINDING the slot [-> DROPPING it, if it is lost] -> CLAIMING its progress at
 * the store [-> CREATING it, CLAIMING again] [-> COPYING memberships] (READING_HISTORY, RESETTING:
 * only when the progress is of another timeline, or its slot is gone or does not go on where it
 * ended) -> STARTING -> OWNING (claims again, now that no other relay can read the slot) ->
 * STREAMING.
 * feed_restart leads from each of them to WAITING.
 */
enum feed_state {
    FEED_WAITING,
    FEED_CONNECTING,
    FEED_SETTING,
    FEED_IDENTIFYING,
    FEED_FINDING,
    FEED_DROPPING,
    FEED_CREATING,
    FEED_CLAIMING,
    FEED_READING_HISTORY,
    FEED_RESETTING,
    FEED_COPYING,
    FEED_STARTING,
    FEED_OWNING,
    FEED_STREAMING
};

struct feed {
    enum feed_state state;
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct store_listener store_listener;
    struct stats *stats;
    feed_refused *refused; /* with refused_ctx */
    void *refused_ctx;
    bool closing;
    void (*on_room)(struct feed *feed); /* reads on, in the state that reads: COPYING, STREAMING */
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

/* An answer of the store that knows which connection it was asked for. */
struct feed_ticket {
    struct feed *feed;
    unsigned attempt;
};

/* Frees a ticket. NULL: its answer comes too late, for an earlier connection or a closed feed. */
static inline struct feed *
feed_take_ticket(struct feed_ticket *ticket)
{
    struct feed *feed = ticket->feed;
    bool counts = ticket->attempt == feed->link.attempt && !feed->closing;

    free(ticket);
    return counts ? feed : NULL;
}

/* feed_state.c: the only way back to WAITING */
/* Logs why, drops the connection, retries after the backoff. */
void feed_restart(struct feed *feed, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same for an error of libpq or the server: "what: message; hint". */
void feed_fail(struct feed *feed, const char *what, const char *message, const char *hint);
void feed_set_state(struct feed *feed, enum feed_state state);
void feed_drop_connection(struct feed *feed);
/* Hands libpq's waiting bytes to the socket, now or when it is writable. */
void feed_flush_socket(struct feed *feed);

/* feed_command.c: commands to the server, and the claim at the store */
/* Sends a command whose answer comes to feed_on_result in `state`. */
void feed_ask(struct feed *feed, enum feed_state state, const char *command);
/* Asks the store for the slot's progress; slot.on_claimed goes on from `state`. */
void feed_claim(struct feed *feed, enum feed_state state);
void feed_begin_start(struct feed *feed);

/* feed_connect.c */
void feed_connect(struct feed *feed);
void feed_on_connecting(struct feed *feed);
void feed_on_result(struct feed *feed);

/* feed_slot.c */
void feed_ask_slot(struct feed *feed);
void feed_on_slot(struct feed *feed, const PGresult *result);
void feed_create_slot(struct feed *feed);
void feed_on_slot_created(struct feed *feed, const PGresult *result);
void feed_on_slot_dropped(struct feed *feed);
void feed_stand_by(struct feed *feed);
void feed_wait_for_slot(struct feed *feed); /* it is lost, and not ours to make again */
uint64_t feed_lsn_read(const char *text);   /* as PostgreSQL writes it; 0: it is none */

/* feed_stream.c */
void feed_stream_begin(struct feed *feed);
void feed_stream_pump(struct feed *feed);
void feed_stream_flush(struct feed *feed); /* sends the batch, if it holds anything */
void feed_stream_idle(struct feed *feed);  /* when nothing is under way, lets quiet WAL go */
/* Takes a packet of frames, and its bytes (malloc). False when the feed was restarted. */
bool feed_stream_take(struct feed *feed, char *owned, struct bytes packet);
void feed_send_feedback(struct feed *feed);
/* How far the slot is behind, for the metrics. */
void feed_show_lag(struct feed *feed);

/* feed_history.c */
/* True when the slot is gone, or lost, that the progress is of: the store is being told. */
bool feed_progress_is_void(struct feed *feed);
/* True when the slot begins beyond what the store knows of: likewise. */
bool feed_slot_moved_on(struct feed *feed);
/* Judges the progress by the server's timeline history, and tells the store. */
void feed_on_history(struct feed *feed, const char *history);

#endif
