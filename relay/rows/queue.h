/* queue.h: requests that wait for a query, and the order of the queries. Pure: no clock, no I/O. */
#ifndef CLAIRON_ROWS_QUEUE_H
#define CLAIRON_ROWS_QUEUE_H

#include <uthash.h>

#include "rows/request.h"

#define ROWS_PER_USER_MAX 16 /* requests of one user that have not ended */

/*
 * A query serves all requests with its key. The key names the rule and everything that selects its
 * rows. USER audience: the user and the groups of its token. Group audience: only the user's groups
 * of that kind. ALL: nothing else. The audience is known from the rule's last result. If a result
 * has another audience or other groups than its key, only the requester receives it.
 *
 * WAITING: a new request with the same key joins it. It waits for a connection, while another query
 * with its key runs, while the first query for a rule of unknown audience runs, until
 * not_before_us, or until one of its users holds fewer results. Next: RUNNING; ENDED, when its last
 * request has ended.
 *
 * RUNNING: a connection has it. Its snapshot may be older than a new request, so none joins it.
 * Next: ENDED; WAITING, if the connection was lost or the snapshot was too old; STUCK.
 *
 * STUCK: it exceeded its time, and its requests have ended, but the server still runs it. Requests
 * for this source are rejected: the owner of the table may have caused it, and each further query
 * would hold another connection. Next: ENDED.
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
    UT_hash_handle hh; /* WAITING: by key */
    enum rows_query_state state;
    struct rows_query *prev; /* WAITING: of its owner; RUNNING, STUCK: of the queue */
    struct rows_query *next;
    struct rows_user *owner;              /* WAITING: scheduled as this user */
    struct rows_request *requests;        /* utlist, the first one is the requester */
    const struct rows_request *requester; /* RUNNING: NULL if it has ended */
    int64_t not_before_us;
    bool is_known;   /* the audience, when the key was made */
    bool is_of_user; /* the key names a user and the groups of its token */
    size_t key_len;
    char key[]; /* source, zero, rule, zero, and what else it names */
};

/* A user with requests, or with a query that others joined. */
struct rows_user {
    UT_hash_handle hh;
    struct rows_user *prev; /* in the order of turns, while it has waiting queries */
    struct rows_user *next;
    struct rows_query *waiting;   /* utlist, oldest first */
    struct rows_request *holding; /* utlist, requests with a result */
    size_t held_bytes;            /* of their results, each counted once, and copies */
    size_t request_count;
    char name[];
};

struct rows_limits {
    size_t waiting;     /* requests */
    int64_t wait_us;    /* for a connection */
    size_t connections; /* queries that run at a time; of one source one less, but at least one */
    size_t user_bytes;  /* of results in memory; a user who holds more receives no other one */
};

/* {.limits = .., .stats = ..} is an empty queue. */
struct rows_queue {
    struct rows_limits limits;
    struct stats *stats;
    struct rows_user *users;    /* uthash */
    struct rows_user *turns;    /* utlist, next first */
    struct rows_query *waiting; /* uthash */
    struct rows_query *running; /* utlist, also the stuck ones */
    struct known_rule *rules;   /* uthash */
    size_t waiting_count;       /* requests */
    int64_t mean_us;            /* of recent queries */
};

/*
 * Adds a request; all texts are copied. ROWS_OK: the caller owns *ret_request. ROWS_BUSY: too many
 * requests wait. ROWS_USER_LIMIT: too many of this user, or it does not read its results.
 * ROWS_TIMED_OUT: a query of this source is stuck. Nothing was added then.
 */
enum rows_status rows_queue_add(struct rows_queue *queue, const struct rows_wanted *wanted,
                                const struct rows_events *events, void *ctx, int64_t now_us,
                                struct rows_request **ret_request);

bool rows_queue_has_next(const struct rows_queue *queue, int64_t now_us);

/*
 * The next query to run, one per user in turn. NULL: none may run now. It belongs to the caller
 * until one of the next four functions; its requester is its first request.
 */
struct rows_query *rows_queue_next(struct rows_queue *queue, int64_t now_us);

/* The parameters of the query: its requester's, or those of its next request if that has ended. */
const struct rows_wanted *rows_query_wanted(const struct rows_query *query);

/*
 * Ends the query with rows. Requests that do not accept the snapshot, or may not share the result,
 * wait again.
 */
void rows_queue_complete(struct rows_queue *queue, struct rows_query *query,
                         struct rows_result *result, int64_t now_us);
/* Ends it with an error. The requester alone receives DENIED; the others wait again. */
void rows_queue_fail(struct rows_queue *queue, struct rows_query *query, enum rows_status status,
                     int64_t now_us);
/* Requeues the requests of a query whose connection was lost. A request fails the second time. */
void rows_queue_repeat(struct rows_queue *queue, struct rows_query *query, int64_t now_us);

/*
 * The server does not end the query in time: ends its requests with ROWS_TIMED_OUT. The query is
 * stuck until rows_queue_release.
 */
void rows_queue_abandon(struct rows_queue *queue, struct rows_query *query);
/* The server has ended a stuck query. */
void rows_queue_release(struct rows_queue *queue, struct rows_query *query);

/* Ends requests that have waited too long, with this status. */
void rows_queue_expire(struct rows_queue *queue, enum rows_status status, int64_t now_us);

/* The duration of a query, for rows_queue_after_ms. */
void rows_queue_measure(struct rows_queue *queue, int64_t elapsed_us);

/* The delay after which a client may retry, in ms. */
int64_t rows_queue_after_ms(const struct rows_queue *queue, enum rows_status status);

/* Frees the cached audiences. All requests must have ended, and no query may run. */
void rows_queue_close(struct rows_queue *queue);

#endif
