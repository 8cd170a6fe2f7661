/* feed_private.h: the feed's state, shared by connecting and streaming. */
#ifndef CLAIRON_FEED_FEED_PRIVATE_H
#define CLAIRON_FEED_FEED_PRIVATE_H

#include <ev.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/config.h"
#include "base/stats.h"
#include "feed/feed.h"
#include "feed/feed_errors.h"
#include "feed/feed_hosts.h"
#include "feed/feed_session.h"
#include "store/store.h"
#include "wire/walmsg.h"

#define FEED_FLIGHTS_MAX 1024 /* most of them is room for what one packet may give */
#define FEED_FLIGHTS_ENOUGH 64
#define FEED_FLIGHTS_HURRY 2 /* from so many on, frames wait until a batch is full */
/* Unanswered by the store; hiredis moves all that it has not sent. */
#define FEED_FLIGHT_BYTES_MAX (1u << 20)
#define FEED_BATCH_BYTES (128u << 10)
#define FEED_HELD_BYTES (1u << 20) /* of which the store may have had most */
#define FEED_CONNECT_PATIENCE_S 15.0
#define FEED_MARKS_MAX 64

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

/* A batch on its way to the store. */
struct flight {
    uint64_t confirm_lsn; /* what may be confirmed once it is stored; 0: nothing new */
    size_t bytes;
    int64_t commit_us; /* when its first transaction committed; 0: it holds the end of none */
};

/* How far the store was at a time. */
struct feed_mark {
    int64_t at_us;
    uint64_t lsn;
};

/* One question to a server, on a connection of its own; neither callback may end it. */
struct feed_inquiry {
    struct ev_loop *loop;
    const char *conninfo;
    const PGconn *beside; /* the server of that connection, where conninfo names several; or NULL */
    const char *query;
    void (*on_rows)(void *ctx, const PGresult *rows); /* NULL: they do not matter */
    void (*on_failure)(void *ctx, const char *message);
    void *ctx;
    struct feed_hosts hosts; /* of conninfo, while they are looked for */
    PGconn *conn;            /* NULL: not connected */
    bool is_set;             /* its session is: the question may be asked */
    ev_io socket;
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
    struct backoff backoff;
    ev_timer retry;
    ev_timer feedback;
    ev_timer patience; /* bounds everything before STREAMING */
    ev_io readable;
    ev_io writable;
    struct feed_hosts hosts; /* of conninfo, while they are looked for */
    PGconn *conn;
    PGresult *result;            /* of the command under way, until its answer is complete */
    struct feed_inquiry primary; /* while a slot is made on its standby */
    ev_timer primary_time;
    bool primary_complained;
    struct feed_inquiry standby; /* while STREAMING from one */
    ev_timer standby_time;
    struct feed_inquiry rules; /* while the console looks at them */
    ev_timer rules_idle;       /* active: so it is */
    char *rules_text;          /* JSON, as they were read last; NULL: never */
    int64_t rules_us;          /* and when */
    bool standby_is_mute;      /* it could not be asked the last time */
    unsigned standby_troubles; /* bad answers in a row, as far as they are counted */
    bool must_create;          /* the slot does not exist yet */
    bool is_lost;              /* PostgreSQL gave the slot up, and we may not make another */
    bool in_recovery;          /* the server is a standby */
    bool is_standby;           /* another relay reads the slot */
    unsigned attempt;          /* tells answers for an earlier connection from ours */
    struct origin origin;
    uint32_t timeline;
    uint32_t stored_timeline; /* of the store's progress */
    uint64_t slot_lsn;        /* where the slot goes on, as it was found or made */
    uint64_t read_lsn;        /* up to where the store knows of all WAL; 0: not known */
    char furthest[FRAME_POSITION_TEXT + 1]; /* of the newest frame that is of that timeline */
    uint64_t claimed_lsn;                   /* position up to which it had all frames */
    uint64_t claimed_ordinal;

    struct store_batch *batch;
    char **held; /* messages whose bytes the batch points into */
    size_t held_count;
    size_t held_room;
    size_t held_bytes;
    uint64_t batch_confirm_lsn;
    int64_t batch_commit_us; /* of its first transaction; 0: none has ended in it */
    int64_t came_us;         /* when a transaction last ended; monotonic */
    int64_t came_late_us;    /* how long after its commit */
    uint64_t batch_lsn;      /* position of the batch's last frame */
    uint64_t batch_ordinal;
    char sent_position[FRAME_POSITION_TEXT + 1]; /* of the last frame handed to the store */
    struct flight flights[FEED_FLIGHTS_MAX];     /* a ring, oldest first */
    unsigned flight_first;
    unsigned flight_count;
    size_t flight_bytes;
    char copied_to[FRAME_POSITION_TEXT + 1]; /* where it goes on behind the copy; "": the start */
    uint64_t copied_members;
    uint64_t copy_ordinal;

    uint64_t received_lsn;
    uint64_t idle_lsn;        /* nothing can come any more before it, as a keepalive told */
    uint64_t stored_lsn;      /* the store answered for all before it */
    uint64_t synced_lsn;      /* and it is safe on disk by now */
    uint64_t replicated_lsn;  /* and enough replicas have it */
    uint64_t confirmed_lsn;   /* so PostgreSQL may forget it */
    uint64_t replicating_lsn; /* that replicas are asked for; 0: nothing */
    uint64_t marked_lsn;
    struct feed_mark marks[FEED_MARKS_MAX]; /* a ring, oldest first */
    unsigned mark_first;
    unsigned mark_count;
    int64_t feedback_us; /* when we last told the server */
    int64_t heard_us;    /* when it last said anything */
    int64_t timeout_us;  /* the server's wal_sender_timeout; 0: none */
    uint64_t told_lsn;
    uint64_t asked_lsn; /* the last keepalive's end of WAL */
    bool closing;
};

/* An answer of the store that knows which connection it was asked for. */
struct feed_ticket {
    struct feed *feed;
    unsigned attempt;
};

/* The one door to WAITING: logs why, drops the connection, comes back after the backoff. */
void feed_restart(struct feed *feed, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same for an error of libpq or the server: "what: message; hint". */
void feed_fail(struct feed *feed, const char *what, const char *message, const char *hint);
void feed_set_state(struct feed *feed, enum feed_state state);
/* Frees a ticket. NULL: its answer comes too late, for an earlier connection or a closed feed. */
struct feed *feed_take_ticket(struct feed_ticket *ticket);

/* feed_connect.c */
void feed_connect(struct feed *feed);
void feed_on_connecting(struct feed *feed);
void feed_on_result(struct feed *feed);
void feed_begin_start(struct feed *feed);
/* Sends a command whose answer comes to feed_on_result in `state`. */
void feed_ask(struct feed *feed, enum feed_state state, const char *command);
/* Asks the store for the slot's progress; the answer goes on from `state`. */
void feed_claim(struct feed *feed, enum feed_state state);

/* feed_slot.c */
void feed_ask_slot(struct feed *feed);
void feed_on_slot(struct feed *feed, const PGresult *result);
void feed_create_slot(struct feed *feed);
void feed_on_slot_created(struct feed *feed, const PGresult *result);
void feed_on_slot_dropped(struct feed *feed);
void feed_stand_by(struct feed *feed);
void feed_wait_for_slot(struct feed *feed); /* it is lost, and not ours to make again */
uint64_t feed_lsn_read(const char *text);   /* as PostgreSQL writes it; 0: it is none */

/* feed_primary.c: while CREATING. Ending what was not begun does nothing. */
void feed_primary_begin(struct feed *feed);
void feed_primary_end(struct feed *feed);

/* feed_standby.c: while STREAMING from a standby. Likewise. */
void feed_standby_begin(struct feed *feed);
void feed_standby_end(struct feed *feed);

/* feed_inquiry.c: asks, unless it is still asking; connects first if need be. */
void feed_inquiry_ask(struct feed_inquiry *inquiry);
void feed_inquiry_end(struct feed_inquiry *inquiry);

/* feed_rules.c */
void feed_rules_end(struct feed *feed);

/* feed_stream.c */
void feed_stream_begin(struct feed *feed);
void feed_stream_reset(struct feed *feed); /* forgets batch and flights */
void feed_stream_pump(struct feed *feed);
void feed_stream_flush(struct feed *feed); /* sends the batch, if it holds anything */
void feed_stream_idle(struct feed *feed);  /* when nothing is under way, lets quiet WAL go */
bool feed_stream_has_room(const struct feed *feed);
/* Takes a packet of frames, and its bytes (malloc). False when the feed was restarted. */
bool feed_stream_take(struct feed *feed, char *owned, struct bytes packet);
void feed_send_feedback(struct feed *feed);
/* How far the slot is behind, for the metrics. */
void feed_show_lag(struct feed *feed);
/* Hands libpq's waiting bytes to the socket, now or when it is writable. */
void feed_flush_socket(struct feed *feed);

/* feed_confirm.c */
void feed_confirm_update(struct feed *feed); /* moves confirmed_lsn as far as is safe now */
void feed_confirm_reset(struct feed *feed);
/* Asks for replicas, where the settings want them. */
void feed_confirm_replicas(struct feed *feed);
/* Up to where nothing can come any more, as a keepalive tells; 0: it does not tell. */
uint64_t feed_confirm_read_lsn(struct feed *feed, const struct walmsg *keepalive);

/* feed_history.c */
/* True when the slot is gone, or lost, that the progress is of: the store is being told. */
bool feed_progress_is_void(struct feed *feed);
/* True when the slot begins beyond what the store knows of: likewise. */
bool feed_slot_moved_on(struct feed *feed);
/* Judges the progress by the server's timeline history, and tells the store. */
void feed_on_history(struct feed *feed, const char *history);

/* feed_members.c */
bool feed_needs_members(const struct feed *feed);
void feed_copy_members(struct feed *feed);
void feed_on_member_rows(struct feed *feed);

#endif
