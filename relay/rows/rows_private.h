/* rows_private.h: what the files of rows share: requests in the queue, and results. */
#ifndef CLAIRON_ROWS_ROWS_PRIVATE_H
#define CLAIRON_ROWS_ROWS_PRIVATE_H

#include <ev.h>
#include <uthash.h>

#include "base/rates.h"
#include "postgres/connection.h"
#include "rows/rows.h"

#define ROWS_PER_USER_MAX 16 /* maximum requests in progress per user */
#define KNOWN_RULES_MAX 1024
/* Maximum results in memory, of rows.max_bytes each. At the limit no query starts. */
#define ROWS_HELD_MAX 32
#define ROWS_HELD_PER_USER_MAX (ROWS_HELD_MAX / 8)

/* ---- query_queue.c: requests that wait for a query, and their order. No clock, no I/O. */

/*
 * A query serves all requests with its key. The key names the rule, the conditions, the user, and
 * the groups of the token; for a rule with audience ALL neither user nor groups. The audience is
 * known from the rule's last result. If the result of a query without a user has another audience
 * than ALL, only the requester receives it.
 *
 * WAITING: a new request with the same key joins the query. The query waits for a connection; for
 * another query with its key; for the first query of a rule whose audience is unknown; for
 * not_before_us; or until one of its users has fewer results in memory. Next: RUNNING; freed, when
 * its last request has ended.
 *
 * RUNNING: the query runs on a connection. Its snapshot may be older than a new request, so no
 * request joins it. If the connection is lost, the snapshot is too old or a table is locked, its
 * requests wait again in a new query. Next: ENDED, STUCK.
 *
 * STUCK: the query exceeded its time limit, and its requests have ended, but the server still runs
 * it. Requests for this source are rejected: the owner of the table may have caused this, and each
 * further query would occupy another connection. Next: ENDED.
 *
 * ENDED: its requests are being completed.
 */
enum rows_query_state {
    ROWS_QUERY_WAITING,
    ROWS_QUERY_RUNNING,
    ROWS_QUERY_STUCK,
    ROWS_QUERY_ENDED
};

struct rows_query {
    UT_hash_handle hh; /* in WAITING: hash by key */
    enum rows_query_state state;
    /* links; in WAITING: of its owner's list; in RUNNING, STUCK: of the queue's list */
    struct rows_query *prev;
    struct rows_query *next;
    struct rows_user *owner;              /* in WAITING: the user in whose turn it runs */
    struct rows_request *requests;        /* utlist; the first request is the requester */
    const struct rows_request *requester; /* in RUNNING: NULL once this request has ended */
    int64_t not_before_us;
    bool is_known;   /* the audience was known when the key was built */
    bool is_of_user; /* the key names a user and the groups of the token */
    size_t key_len;
    char key[]; /* source, zero byte, rule, zero byte, then all other values */
};

/* A user with requests, or with a query that other users joined. */
struct rows_user {
    UT_hash_handle hh;
    struct rows_user *prev; /* links in turn order, while the user has waiting queries */
    struct rows_user *next;
    struct rows_query *waiting;   /* utlist, oldest first */
    struct rows_request *holding; /* utlist, requests with a result */
    size_t held_bytes;            /* size of results, each counted once, and of copies */
    size_t request_count;
    char name[];
};

/* The audience of a live rule, taken from an earlier result. */
struct known_rule {
    UT_hash_handle hh;
    char *audience;
    size_t key_len;
    char key[]; /* source, zero byte, name, zero byte */
};

struct rows_limits {
    size_t waiting;  /* maximum waiting requests */
    int64_t wait_us; /* maximum wait for a connection */
    /* maximum running queries; for a single source one less, but at least one */
    size_t connections;
    /* maximum result bytes in memory; beyond it, a user receives no further result */
    size_t user_bytes;
};

/* {.limits = ..., .stats = ...} is an empty queue. */
struct rows_queue {
    struct rows_limits limits;
    struct stats *stats;
    struct rows_user *users;    /* uthash */
    struct rows_user *turns;    /* utlist; the next user is first */
    struct rows_query *waiting; /* uthash */
    struct rows_query *running; /* utlist; includes stuck queries */
    struct known_rule *rules;   /* uthash */
    size_t waiting_count;       /* number of waiting requests */
    int64_t mean_us;            /* mean duration of recent queries */
};

/* A request, from rows_queue_add to rows_request_end. */
struct rows_request {
    struct rows_queue *queue;
    struct rows_user *user;
    struct rows_query *query;  /* NULL after completion */
    struct rows_request *prev; /* links of the query's list; with a result, of the user's list */
    struct rows_request *next;
    struct rows_wanted wanted; /* owns all but the user's name, which belongs to `user` */
    const struct rows_events *events;
    void *ctx;
    struct rows_result *result; /* a reference; set when the request completes; may be an error */
    size_t copied_bytes;        /* size of the client's copy, counted as result memory */
    int64_t deadline_us;        /* time limit for the start of the query */
    int64_t not_before_us;
    int64_t delay_us;          /* delay before the next query, if this one must be repeated */
    enum rows_status repeated; /* why a query was repeated with a delay; ROWS_OK: none was */
    bool was_lost;
};

/*
 * Adds a request; all strings are copied. ROWS_OK: the caller owns *ret_request. ROWS_BUSY: too
 * many requests wait. ROWS_USER_LIMIT: the user has too many requests, or does not read the
 * results. ROWS_TIMED_OUT: a query of this source is stuck. Except with ROWS_OK, nothing was added.
 */
enum rows_status rows_queue_add(struct rows_queue *queue, const struct rows_wanted *wanted,
                                const struct rows_events *events, void *ctx, int64_t now_us,
                                struct rows_request **ret_request);

bool rows_queue_has_next(const struct rows_queue *queue, int64_t now_us);

/*
 * Returns the next query to run, one per user in turn. NULL: none may run now. The caller owns it
 * until rows_queue_complete, _fail, _repeat, _postpone or _release. Its first request is the
 * requester.
 */
struct rows_query *rows_queue_next(struct rows_queue *queue, int64_t now_us);

/*
 * Returns the parameters of the query. They come from its requester or, if the requester has ended,
 * from its next request.
 */
const struct rows_wanted *rows_query_wanted(const struct rows_query *query);

/*
 * Completes the query with rows. Requests that do not accept the snapshot, or must not share the
 * result, wait again.
 */
void rows_queue_complete(struct rows_queue *queue, struct rows_query *query,
                         struct rows_result *result, int64_t now_us);
/*
 * Ends the query with an error. DENIED and INVALID end only the request of the requester, unless
 * the key names the user; the other requests wait again. `result` is the error that the server has
 * returned as a header; NULL: none.
 */
void rows_queue_fail(struct rows_queue *queue, struct rows_query *query, enum rows_status status,
                     struct rows_result *result, int64_t now_us);
/*
 * Requeues the requests of a query whose connection was lost. At the second loss a request fails.
 */
void rows_queue_repeat(struct rows_queue *queue, struct rows_query *query, int64_t now_us);

/*
 * Requeues the requests of a query that did not get a lock: a query that waits on the server would
 * occupy a connection.
 */
void rows_queue_postpone(struct rows_queue *queue, struct rows_query *query, int64_t now_us);

/*
 * Call it when the server did not cancel the query in time. Ends the query's requests with
 * ROWS_TIMED_OUT. The query is stuck until rows_queue_release.
 */
void rows_queue_abandon(struct rows_queue *queue, struct rows_query *query);
/* Call it when a stuck query has ended on the server. */
void rows_queue_release(struct rows_queue *queue, struct rows_query *query);

/*
 * Ends requests that have waited too long: with ROWS_STALE or ROWS_LOCKED if that was why their
 * queries were repeated, otherwise with this status.
 */
void rows_queue_expire(struct rows_queue *queue, enum rows_status status, int64_t now_us);

/* Records the duration of a query, for rows_queue_after_ms. */
void rows_queue_measure(struct rows_queue *queue, int64_t elapsed_us);

/* Returns the delay after which a client may retry, in ms. */
int64_t rows_queue_after_ms(const struct rows_queue *queue, enum rows_status status);

/* Frees the cached audiences. All requests must have ended, and no query may run. */
void rows_queue_close(struct rows_queue *queue);

/* ---- position.c */

struct rows_positions *positions_open(struct ev_loop *loop, const struct config *config,
                                      const char *conninfo);
/* All requests must have ended. */
void positions_close(struct rows_positions *positions);
struct rows_position_request *positions_start(struct rows_positions *positions, uint64_t xid,
                                              rows_position_known *done, void *ctx);

/* ---- result.c */

#define ROWS_FIRST_ROW_MAX (32u * 1024 * 1024) /* bytes */

/*
 * The caller owns one reference. Limits: max_rows, and max_bytes of JSON without the commas between
 * rows. The header is not counted.
 */
struct rows_result *rows_result_new(size_t max_rows, size_t max_bytes, size_t *held_bytes);
struct rows_result *rows_result_ref(struct rows_result *result);
void rows_result_unref(struct rows_result *result); /* accepts NULL */

/*
 * Adds the next row that the query returns: first the header, then rows, then an empty row if more
 * rows match. RC_LIMIT: too many rows or bytes. RC_BAD: invalid header, a row that is not one line,
 * or a row behind an error, a count or an empty row.
 */
MUST_CHECK enum rc rows_result_add(struct rows_result *result, const char *text, size_t len);

/* Returns the status for a server error; NULL: it has no SQLSTATE. */
enum rows_status rows_status_of(const char *sqlstate);

#endif
