/* hub.h: delivers notifications to sessions: the client connections of the users in an audience. */
#ifndef CLAIRON_HUB_HUB_H
#define CLAIRON_HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/rc.h"
#include "base/stats.h"
#include "store/entry.h"
#include "wire/bytes.h"

struct cutoff;
struct ev_loop;
struct hub;
struct iovec;
struct rows;
struct rows_conditions;
struct session;
struct shared;
struct snapshot;
struct store;

/* ---- sessions: client connections of users, over any transport */

#define SESSION_USER_MAX 255
#define SESSION_TARGET_MAX 255
#define SESSION_AUDIENCE_MAX 63
#define SESSION_GROUPS_MAX 256 /* maximum groups in a token */
#define SESSION_ACKS_MAX 1024  /* maximum ids in an ack */
#define SESSION_TOPICS_MAX 256 /* maximum topics of a connection */
#define SESSION_TOPICS_BYTES_MAX 8192
#define SESSION_UNVERIFIED_LISTS_MAX 32 /* maximum lists of rows that were read elsewhere */

struct session_group {
    const char *audience; /* "STRUCTURE" */
    const char *target;   /* "s1" */
};

/* Exact topics, or prefixes with a trailing '*'. The caller validates them. */
struct session_topics {
    const char *const *names;
    size_t count;
};

/*
 * Whole WebSocket frames. The last frame of a piece may continue in the next piece. `owners`: for
 * each piece, the owner of its bytes; NULL: they are valid only during the call.
 */
struct session_pieces {
    const struct iovec *at;
    struct shared *const *owners;
    int count;
    int file; /* has the content of the first piece; -1: none */
};

/* CONTROL: any line that is none of the others. */
enum session_line_kind {
    SESSION_LINE_CONTROL,
    SESSION_LINE_ACKED,
    SESSION_LINE_GAP,
    SESSION_LINE_NOTIFICATION,
    SESSION_LINE_END
};

/* One line, for a transport without WebSocket frames. */
struct session_line {
    enum session_line_kind kind;
    struct bytes text;
    struct bytes rest;    /* the end of the line, after `text`; may be empty */
    struct bytes pos;     /* the cursor from which a client resumes after it; empty: none */
    struct shared *owner; /* of `text`; NULL: it is valid only during the call */
    struct shared *rest_owner;
};

/* How a session writes to its socket. Called from the loop, never during hub_attach. */
struct session_transport {
    bool uses_files; /* of session_pieces */
    /* Sends a line; NULL: `send` is used. False: full, and session_writable is called later. */
    bool (*send_line)(void *socket, const struct session_line *line);
    /*
     * Writes as many bytes as the socket accepts, and keeps a reference to the unwritten part of a
     * frame. *ret_written: bytes written or kept, always whole frames. Unless RC_OK: the socket is
     * full; session_writable is called when it is writable again.
     */
    enum rc (*send)(void *socket, const struct session_pieces *pieces, size_t *ret_written);
    /*
     * The session failed: send `bye`, close with `code`, then call session_detach. in_ms: the delay
     * for the client's reconnect; -1: none.
     */
    void (*close)(void *socket, int code, const char *reason, int64_t in_ms);
};

/* A client whose token is valid. hub_attach copies it. */
struct session_request {
    const char *user;
    const struct session_group *groups;
    size_t group_count;
    const char *pos;     /* NULL: send only new notifications */
    int window;          /* requested by the client; 0: use the configured size */
    int64_t expires_s;   /* the token's exp, Unix seconds */
    bool has_request_id; /* the client's "r" */
    int64_t request_id;
    struct session_topics topics; /* empty: all topics */
    /* with pos: notifications that were already sent are not repeated before their ack timeout */
    bool is_poll;
    bool wants_ends; /* the client gets the ends of transactions */
};

/*
 * Starts a session. The session reads the user's memberships, sends `connected`, then the pending
 * list, then the notifications after pos, then new notifications. Waits while the store is down.
 * Never returns NULL. End the session with session_detach.
 */
struct session *hub_attach(struct hub *hub, const struct session_request *request,
                           const struct session_transport *transport, void *socket);

/*
 * Call it when the socket is closed. Frees the session, immediately or when the last pending reply
 * arrives.
 */
void session_detach(struct session *session);

/*
 * Returns the id of this connection, as in log messages and in `connected`. Valid as long as the
 * session.
 */
#define SESSION_CONN_SIZE 32
const char *session_conn(const struct session *session);
const char *session_user(const struct session *session);

/* Call it when the socket is writable again. Writes the queued frames. */
void session_writable(struct session *session);

/* The socket accepted bytes of a frame that it had accepted partly. */
void session_accepted(struct session *session);

/*
 * Returns the reason to close this client as too slow; NULL: the client is not too slow. now_us is
 * monotonic.
 */
const char *session_slow(const struct session *session, int64_t now_us);

/*
 * Writes the cursor after all sent notifications, for a transport that ends and resumes later.
 * False while notifications are queued.
 */
#define SESSION_POS_MAX 512
bool session_pos(const struct session *session, char ret_pos[SESSION_POS_MAX]);

/*
 * Adds these topics, and sends `subscribed` with all topics. Notifications that are already queued
 * are still sent. RC_LIMIT: too many topics. RC_AGAIN: too many queued replies. Neither changes the
 * topics.
 */
MUST_CHECK enum rc session_subscribe(struct session *session, const struct session_topics *topics,
                                     bool has_request_id, int64_t request_id);

/*
 * Removes topics, which must be spelled as in `subscribe`; sends `subscribed`. RC_AGAIN: too many
 * queued replies.
 */
MUST_CHECK enum rc session_unsubscribe(struct session *session, const struct session_topics *topics,
                                       bool has_request_id, int64_t request_id);

/*
 * Applies acknowledgements of the user. `ids` are lower case UUIDs, as client_message.h returns
 * them; count <= SESSION_ACKS_MAX.
 */
void session_ack(struct session *session, const char *const *ids, size_t count);

/* The user rejected these notifications: the store retries them after delay_ms at the earliest. */
void session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms);

/*
 * Sends the rows that the rule addresses to the session's user, and that match the conditions, as
 * `rows` frames, or an `err` frame. Later changes of the user's memberships send `reload`. Returns
 * false and sends nothing if too many replies are queued; the caller rejects the request.
 */
MUST_CHECK bool session_request_rows(struct session *session, const char *source, const char *rule,
                                     const struct rows_conditions *conditions, int64_t request_id);

/*
 * The client has read rows of this rule elsewhere. From now on, changes of these rows without
 * notifications send `reload`, even if the rule is not live: the rows may depend on memberships.
 */
void session_watch_rows(struct session *session, const char *source, const char *rule);

/*
 * For rows of this rule that the application has read. True if the snapshot contains all
 * transactions that have a notification before the cursor. Also watches the rows.
 */
bool session_accepts_snapshot(struct session *session, const char *source, const char *rule,
                              const struct snapshot *snapshot);

/* ---- barriers */

#define SESSION_BARRIERS_MAX 16

/*
 * Sends a `barrier` frame behind the notifications of all transactions that are visible to new
 * snapshots now; with an xid also of that transaction, once it has ended. xid 0: of no transaction.
 * If it fails, sends an `err` frame ahead of them. False if too many barriers wait; the caller
 * rejects the request.
 */
MUST_CHECK bool session_barrier(struct session *session, uint64_t xid, int64_t request_id);

struct barrier;

/* How a barrier ends. */
struct barrier_result {
    const struct barrier_error *error; /* NULL: none */
    int64_t after_ms;                  /* with an error: delay before a retry; -1: do not retry */
    bool has_outcome;                  /* PostgreSQL knows how the transaction has ended ... */
    bool is_committed;                 /* ... by a commit */
    const char *pos;                   /* over HTTP: whoever has read up to it has all */
};

struct barrier_error {
    int code; /* enum gate_err */
    int http_status;
    const char *text;
};

/* Called once, from the loop; ends the barrier. */
typedef void hub_barrier_done(void *ctx, const struct barrier_result *result);

/* Like session_barrier, for a user without a connection. NULL: too many barriers wait. */
struct barrier *hub_barrier_start(struct hub *hub, const char *user, uint64_t xid,
                                  hub_barrier_done *done, void *ctx);
/* Cancels a barrier. Accepts NULL. */
void hub_barrier_end(struct barrier *barrier);

/* ---- the hub */

/*
 * Reads the store's stream from its end and serves sessions. config, rows (may be NULL) and stats
 * must outlive it.
 */
struct hub *hub_open(struct ev_loop *loop, const struct config *config, struct store *store,
                     struct rows *rows, struct stats *stats);

/* Stops reading. All sessions must have been detached. Accepts NULL. */
void hub_close(struct hub *hub);

/* Call it after hub_close and store_close, because replies may arrive until then. Accepts NULL. */
void hub_free(struct hub *hub);

/* Returns the store from which the hub reads. */
struct store *hub_store(const struct hub *hub);

/* Returns the reader of rows; NULL: no connection string. */
struct rows *hub_rows(const struct hub *hub);

/*
 * Returns the total of the bytes that wait for sockets. A transport adds the blocks that it keeps
 * (shared_wait).
 */
size_t *hub_waiting_bytes(struct hub *hub);

/* Receives the cut-offs that are stored, and those that are removed (ends_s is 0). */
struct hub_cutoffs {
    void (*on_cutoff)(void *ctx, const struct cutoff *cutoff);
    /* The store is up again, or cut-offs may have been missed: read all of them. */
    void (*on_missed)(void *ctx);
    void *ctx;
};

/* One receiver, which must live until another one is set; NULL: none. */
void hub_set_cutoffs(struct hub *hub, const struct hub_cutoffs *cutoffs);

/* Returns the number of sessions of a user on this relay. */
size_t hub_user_sessions(struct hub *hub, const char *user);

/* Like session_ack, without a connection: all sessions of the user receive `acked`. */
void hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count);

/*
 * Like session_nack, without a connection. RC_AGAIN: the store is down, or too many nacks are
 * pending; nothing was sent.
 */
MUST_CHECK enum rc hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count,
                            int64_t delay_ms);

/* The cursor up to which the relay has read the streams of a user. */
struct hub_cursor {
    bool is_known; /* the store has been up */
    unsigned own_shard;
    struct cursor cursor;
};

/*
 * Returns the cursor of a client without a session: its `pos`, which another relay may have sent.
 * If `pos` is NULL or invalid, the cursor up to which this relay has read.
 */
struct hub_cursor hub_cursor_of(const struct hub *hub, const char *user, const char *pos);
bool hub_accepts_snapshot(const struct hub *hub, const struct hub_cursor *reached,
                          const struct snapshot *snapshot);

#endif
