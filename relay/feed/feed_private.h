/*
 * feed_private.h: struct feed, and what its files share.
 *
 * Calls go in one direction: feed.c (events, and the steps to the stream), then slot.c, then
 * stream.c, then state.c (commands, and the return to WAITING), then side_queries.c.
 */
#ifndef CLAIRON_FEED_FEED_PRIVATE_H
#define CLAIRON_FEED_FEED_PRIVATE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/rates.h"
#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "feed/feed.h"
#include "postgres/connection.h"
#include "store/store.h"
#include "wire/bytes.h"
#include "wire/frame.h"

#define FEED_CONNECT_TIMEOUT_S 15.0
#define FEED_PROCESS_MAX 48
#define FEED_COMMAND_MAX 2048
#define FEED_FLIGHTS_MAX 1024 /* enough for the batches that one replication message can produce */
#define FEED_MARKS_MAX 64
#define FEED_DENIALS_SQL_MAX 8192 /* room for STORE_DENIALS_MAX owners in each account */

/*
 * The states of the feed. Only feed_set_state changes the state. feed_restart returns to WAITING.
 * In every state except WAITING, a connection to PostgreSQL is open or being opened.
 *
 * WAITING: waits for the reconnect timer or for the store. Next: CONNECTING.
 *
 * CONNECTING: host names are resolved, and the server accepts the login. Next: SETTING.
 *
 * SETTING: the parameters of the session are set. Next: IDENTIFYING.
 *
 * IDENTIFYING: the server reports its system identifier and timeline. Next: FINDING.
 *
 * FINDING: the slot is queried. While it is in use (enum slot_holder), this feed restarts. Next:
 * ACQUIRING, or DROPPING if the slot is lost and create_slot is on.
 *
 * DROPPING: the lost slot is dropped. Next: ACQUIRING.
 *
 * ACQUIRING: the store returns the progress of the slot, and rejects another database. Next:
 * IDENTIFYING if the server must report again, READING_HISTORY, RESETTING, CREATING, COPYING,
 * STARTING.
 *
 * READING_HISTORY: the progress is on another timeline, and the server returns the end of that
 * timeline. Next: RESETTING.
 *
 * RESETTING: the store rewinds the progress, because the slot does not exist, does not continue
 * where the progress ends, or follows another timeline. Then the store closes its connections,
 * which restarts the feed. Next: WAITING.
 *
 * CREATING: the server creates the slot, which waits for running transactions. Next: ACQUIRING.
 *
 * COPYING: the rows of clairon.member are copied to a store that has none. Next: STARTING.
 *
 * STARTING: the server starts replication. If another relay was faster, this feed restarts. Next:
 * REACQUIRING.
 *
 * REACQUIRING: no other relay can read the slot now, so the progress is read again. Next:
 * STREAMING.
 *
 * STREAMING: frames arrive. Next: WAITING.
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

/* The connection to PostgreSQL and the timer of its reconnect. */
struct feed_connection {
    struct backoff backoff;
    ev_timer reconnect;
    /* limits every state before STREAMING, except CREATING on a primary, and waits for the store */
    ev_timer timeout;
    ev_io readable;
    ev_io writable;
    struct postgres_connect connect;
    PGconn *conn;     /* NULL: not connected */
    PGresult *result; /* result of the running command, until it is complete */
    unsigned attempt; /* number of this connection; detects late replies of the store */
    /* pid and start of the server process, and that of the last connection that streamed */
    char process[FEED_PROCESS_MAX];
    char streamed[FEED_PROCESS_MAX]; /* "": none */
};

/* The process that uses the slot, as seen by the last connection. */
enum slot_holder {
    SLOT_FREE,
    SLOT_HELD_BY_RELAY,    /* another relay reads the slot: this feed is on standby */
    SLOT_HELD_BY_CREATION, /* a command creates the slot, which no relay can read yet */
    SLOT_HELD_BY_PREVIOUS  /* the server process of this feed's previous connection */
};

/* The slot on the server, and its progress in the store. */
struct feed_slot {
    bool must_create; /* the slot does not exist yet */
    bool is_lost;     /* PostgreSQL invalidated the slot, and create_slot is off */
    bool in_recovery; /* the server is a standby */
    enum slot_holder holder;
    int64_t held_since_us;   /* when `holder` changed; monotonic */
    int64_t held_checked_us; /* when it was queried last */
    struct origin origin;
    uint32_t timeline;
    uint32_t stored_timeline; /* timeline of the store's progress */
    uint64_t wal_lsn;         /* end of the server's WAL when it was identified */
    uint64_t lsn;             /* confirmed_flush_lsn, or the start of the new slot */
    uint64_t read_lsn;        /* all WAL before this LSN is stored or irrelevant; 0: unknown */
    char furthest[FRAME_POSITION_TEXT + 1]; /* position of the newest frame on stored_timeline */
    char known[FRAME_POSITION_TEXT + 1];    /* `furthest` before the server was queried */
    uint64_t acquired_lsn;                  /* the store has all frames up to this position */
    uint64_t acquired_ordinal;
    void (*on_acquired)(struct feed *feed); /* called after the reply: starts the next step */
};

/* The initial copy of clairon.member. */
struct feed_copy {
    char to[FRAME_POSITION_TEXT + 1]; /* progress after the copy; "": the start */
    uint64_t rows;
    uint64_t ordinal;
};

/* The batch being collected. */
struct feed_batch {
    struct store_batch *frames;
    char **held; /* replication messages that contain the frames */
    size_t held_count;
    size_t held_room;
    size_t held_bytes;
    uint64_t confirm_lsn; /* LSN to confirm once the batch is stored; 0: nothing new */
    int64_t commit_us;    /* commit time of the first transaction that ends in the batch; 0: none */
    uint64_t lsn;         /* WAL position of the last received frame; (0, 0): none */
    uint64_t ordinal;
    char sent_position[FRAME_POSITION_TEXT + 1]; /* position of the last frame sent to the store */
};

/* A batch in flight: the store has not yet acknowledged it. */
struct flight {
    uint64_t record_lsn; /* every shard then has recorded all WAL before this LSN; 0: no record */
    bool is_stored;      /* but an earlier batch is not */
    size_t bytes;
    int64_t commit_us;
};

struct feed_flights {
    struct flight ring[FEED_FLIGHTS_MAX]; /* oldest first */
    unsigned first;
    unsigned count;
    size_t bytes;
};

/* The WAL position that the store had acknowledged at a point in time. */
struct feed_mark {
    int64_t at_us;
    uint64_t lsn;
};

/*
 * The LSN that may be confirmed. WAL is received, sent to some shards, recorded by all shards
 * (is_record_due), then on disk and, with store.min_replicas, on replicas. Then it is confirmed,
 * unless a shard is unavailable, which may lack it. A restart of the feed begins with nothing.
 */
struct feed_confirm {
    uint64_t received_lsn;
    uint64_t idle_lsn;        /* all changes before this LSN were sent, as a keepalive reported */
    int64_t idle_us;          /* when it was last recorded in the store; monotonic */
    uint64_t sent_lsn;        /* the batches that were sent contain all WAL before this LSN */
    uint64_t stored_lsn;      /* every shard has recorded all WAL before this LSN */
    uint64_t recording_lsn;   /* stored_lsn after the last record that was sent */
    int64_t recorded_us;      /* when it was sent; monotonic */
    unsigned unrecorded;      /* frames sent since then */
    bool is_requested;        /* the server waits for a confirmation */
    uint64_t synced_lsn;      /* all WAL before this LSN is on the store's disk */
    uint64_t replicated_lsn;  /* all WAL before this LSN is on enough replicas */
    uint64_t confirmed_lsn;   /* PostgreSQL may recycle WAL before this LSN */
    uint64_t replicating_lsn; /* LSN that the replicas must reach; 0: no request */
    uint64_t marked_lsn;
    uint64_t keepalive_lsn;                 /* end of WAL in the last keepalive */
    struct feed_mark marks[FEED_MARKS_MAX]; /* ring, oldest first */
    unsigned mark_first;
    unsigned mark_count;
};

/* Status messages to the server, and the times of the last message sent and received. */
struct feed_feedback {
    ev_timer timer;
    ev_timer idle;              /* active until WAL without notifications is recorded */
    int64_t sent_us;            /* time of the last status message */
    int64_t received_us;        /* start of the server's silence: server_is_alive */
    int64_t timeout_us;         /* the server's wal_sender_timeout; 0: disabled */
    uint64_t reported_lsn;      /* LSN confirmed by the last status message */
    int64_t last_commit_us;     /* arrival of the last transaction's commit frame; monotonic */
    int64_t last_commit_lag_us; /* delay between that transaction's commit and the arrival */
};

/*
 * While CREATING a slot on a standby: requests a snapshot of running transactions from the primary.
 */
struct feed_snapshot_request {
    struct postgres_query query;
    bool failure_logged;
};

/* The kinds of changes that the decoder denies, as clairon.status names them. */
#define FEED_DENIAL_KINDS 5

/*
 * While STREAMING: reads at intervals what the decoder has denied, and from a standby, whether new
 * WAL arrives.
 */
struct feed_status {
    struct postgres_query query;
    char sql[FEED_COMMAND_MAX];
    bool query_failed;                   /* the last query failed and was logged */
    unsigned failures;                   /* consecutive failed checks, up to the threshold */
    bool is_stalled;                     /* the checks failed often enough */
    uint64_t counted[FEED_DENIAL_KINDS]; /* denials of this connection in the metrics */
};

/* The WAL that the slot retains, while this relay waits to read it. */
struct feed_wal {
    struct postgres_query query;
    char sql[FEED_COMMAND_MAX];
};

/* The rules for the console. */
struct feed_rules {
    struct postgres_query query;
    char *text;      /* JSON; NULL: never read */
    int64_t read_us; /* time of the last read; wall clock */
};

/* What the store has denied to table owners, for clairon.status and clairon.doctor. */
struct feed_denials {
    struct postgres_query query;
    char sql[FEED_DENIALS_SQL_MAX]; /* the last report */
    struct {
        uint64_t reported; /* denials in it; 0: it failed */
        uint64_t logged;
    } accounts[STORE_ACCOUNTS];
    int64_t next_us; /* no report before; monotonic clock */
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
    struct feed_connection connection;
    struct feed_slot slot;
    struct feed_batch batch;
    struct feed_flights flights;
    struct feed_copy copy;
    struct feed_confirm confirm;
    struct feed_feedback feedback;
    struct feed_snapshot_request snapshot_request;
    struct feed_status status;
    struct feed_wal wal;
    struct feed_rules rules;
    struct feed_denials denials;
};

/* Context of a store request: the feed, and its connection number when the request was sent. */
struct feed_attempt {
    struct feed *feed;
    unsigned attempt;
    unsigned flight; /* of a batch: its index in the ring */
};

/* ---- slot.c */

void feed_query_slot(struct feed *feed);
void feed_on_slot(struct feed *feed, const PGresult *result);
void feed_create_slot(struct feed *feed);
void feed_on_slot_created(struct feed *feed, const PGresult *result);
void feed_on_slot_dropped(struct feed *feed);
/* The slot is in use: waits until it is free. `pid` of the holder; 0: unknown. */
void feed_wait_for_slot(struct feed *feed, enum slot_holder holder, int pid);
void feed_fail_lost_slot(struct feed *feed); /* the slot is lost, and create_slot is off */
uint64_t feed_lsn_read(const char *text);    /* parses PostgreSQL's format; 0: invalid */
#define FEED_LSN_TEXT 18                     /* bytes of an LSN in PostgreSQL's format */
const char *feed_lsn_write(uint64_t lsn, char ret_text[FEED_LSN_TEXT]); /* returns ret_text */
/* The LSN of a position; "none": it is empty. */
const char *feed_position_lsn(const char *position, char ret_text[FEED_LSN_TEXT]);

/* True if the slot is missing or lost, or the WAL ends early, although the store has progress. */
bool feed_server_lacks_progress(const struct feed *feed);

/*
 * Each resets the progress and returns true in its case: the store has progress, but the slot is
 * missing or lost; the WAL of a primary ends before the store's progress; the slot starts beyond
 * the WAL position recorded in the store.
 */
bool feed_reset_if_slot_lost(struct feed *feed);
bool feed_reset_if_wal_went_back(struct feed *feed);
bool feed_reset_if_slot_advanced(struct feed *feed);
/* Compares the progress with the server's timeline history and resets the store's progress. */
void feed_on_timeline(struct feed *feed, const char *history);

/* ---- stream.c */

void feed_stream_start(struct feed *feed);
/* Reads messages until libpq has no more messages, or too many batches are in flight. */
void feed_stream_pump(struct feed *feed);
/*
 * Handles a message of frames and takes ownership of its bytes (malloc). Returns false if the feed
 * was restarted.
 */
bool feed_stream_receive(struct feed *feed, char *owned, struct bytes frames);
void feed_stream_flush(struct feed *feed); /* sends the batch unless it is empty */
/* False means backpressure: the feed stops reading. */
bool feed_flights_have_room(const struct feed_flights *flights);
/* Reads while there is room: if the store is behind, TCP flow control slows PostgreSQL down. */
void feed_pace_reading(struct feed *feed);
/* Advances confirmed_lsn as far as possible. */
void feed_confirm_update(struct feed *feed);
/* Returns the WAL position before which no change is outstanding; 0: unknown. */
uint64_t feed_confirm_read_lsn(struct feed *feed, const struct walmsg *keepalive);
/* Sends a status message with the confirmed LSN. */
void feed_send_feedback(struct feed *feed);
/* A separate timer, because status messages are due even if no message arrives. */
void feed_on_feedback(struct ev_loop *loop, ev_timer *timer, int events);
/* Records WAL without notifications in the store. */
void feed_on_idle(struct ev_loop *loop, ev_timer *timer, int events);

/* ---- state.c */

/*
 * The only way to change the state. A transition that is not listed above restarts the feed, and
 * aborts in a debug build (base/states.h).
 */
void feed_set_state(struct feed *feed, enum feed_state state);

/* Logs the reason with fields, drops the connection and reconnects after the backoff. */
#define feed_restart(feed, ...)                                                                    \
    feed_restart_with((feed), LOG_FIRST(__VA_ARGS__, LOG_END),                                     \
                      (const struct log_field[]){LOG_REST(__VA_ARGS__, LOG_END)})
void feed_restart_with(struct feed *feed, const char *reason, const struct log_field *fields);

/* Like feed_restart, for an error of libpq or of the server. `hint` may be "". */
void feed_fail(struct feed *feed, const char *what, const char *message, const char *hint);
void feed_drop_connection(struct feed *feed);
/* Flushes libpq's output buffer, immediately or when the socket is writable. */
void feed_flush_socket(struct feed *feed);

/* Drops the collected frames and the position of the last one. Keeps the position that was sent. */
void feed_batch_reset(struct feed_batch *batch, struct store *store);
/* Frees the messages of the batch, once it was sent. */
void feed_batch_release(struct feed_batch *batch);

/* Sends a command, and changes the state. feed.c handles the result. */
void feed_send_command(struct feed *feed, enum feed_state state, const char *command);
/* Requests the slot's progress from the store; then calls slot.on_acquired. */
void feed_acquire(struct feed *feed, enum feed_state state);

/*
 * A ticket for a request to the store. feed_ticket_redeem frees it and returns its feed. NULL: the
 * reply belongs to an earlier connection or a closed feed.
 */
struct feed_attempt *feed_ticket_new(struct feed *feed);
struct feed *feed_ticket_redeem(struct feed_attempt *ticket);

/* ---- side_queries.c */

void feed_snapshot_request_start(struct feed *feed);
void feed_status_start(struct feed *feed);
void feed_status_end(struct feed *feed);
/* Until the status is queried, or the slot is in use. A no-op if it was started. */
void feed_wal_start(struct feed *feed);
void feed_wal_end(struct feed *feed);
/* Publishes the state for /readyz. */
void feed_publish_availability(struct feed *feed);
/* Reports why the feed is down or stalled. `error` and `hint` may be NULL. */
void feed_report_reason(struct feed *feed, const char *what, const char *error, const char *hint);
/* Sends a report if there were denials since the last one, at most once a second. */
void feed_denials_report(struct feed *feed);
void feed_denials_end(struct feed *feed);

#endif
