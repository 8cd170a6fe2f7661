/* routes.h: the route table, and the handlers of its routes. */
#ifndef CLAIRON_GATE_ROUTES_H
#define CLAIRON_GATE_ROUTES_H

#include <ev.h>

#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "hub/hub.h"
#include "wire/frame.h"
#include "wire/rows_conditions.h"

struct rows_request;
struct web_push_sender;

extern const struct gate_route GATE_ROUTES[]; /* terminated by a NULL path */

/* Serves the request of conn->head. */
void gate_router_serve(struct conn *conn);

/* The structs are the route_state of the requests of a route. */

/* ---- sse_poll.c */

struct gate_sse {
    char *pos; /* NULL: none */
    char *topics;
    char *lists;
    const char *problem; /* of topics or lists; NULL: none */
    bool wants_ends;
    int64_t ping_due_us;
    struct gate_expiry expiry;
};

void gate_sse_headers(struct gate_request *request);
void gate_sse_begin(struct gate_request *request);
bool gate_sse_line(struct gate_request *request, const struct session_line *line);
void gate_sse_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us);
void gate_sse_end(struct gate_request *request, int code, const char *reason, int64_t in_ms);
void gate_sse_free(struct gate_request *request);

struct gate_poll {
    int64_t deadline_us;
    struct ev_timer recheck; /* runs after the wait, until the store has replied */
    struct out lines;        /* the body of the response */
    int max;                 /* maximum number of notifications */
    int line_count;
    bool has_lines;            /* contains a line that ends the poll */
    bool is_full;              /* the response is full */
    char pos[SESSION_POS_MAX]; /* cursor of the last line */
};

void gate_poll_begin(struct gate_request *request);
bool gate_poll_line(struct gate_request *request, const struct session_line *line);
void gate_poll_writable(struct gate_request *request);
void gate_poll_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us);
/* Ends the wait for notifications: the client half-closed, or the relay drains. */
void gate_poll_end_wait(struct gate_request *request);
void gate_poll_end(struct gate_request *request, int code, const char *reason, int64_t in_ms);
void gate_poll_free(struct gate_request *request);

/* ---- rows_route.c */

struct gate_rows {
    struct rows_request *request; /* NULL: rejected */
    struct hub_cursor reached;    /* the rows must contain all changes up to it */
    char *source;                 /* NULL: the request has none */
    char *rule;
    struct rows_conditions conditions;
};

void gate_rows_begin(struct gate_request *request);
void gate_rows_free(struct gate_request *request);

struct gate_barrier {
    struct barrier *barrier; /* NULL: not started, or it has ended */
};

void gate_api_barrier(struct gate_request *request);
void gate_api_barrier_free(struct gate_request *request);

/* ---- publish.c */

struct gate_publication {
    char *key;         /* Idempotency-Key; NULL: none */
    bool is_bad_key;   /* too long, or empty */
    char *traceparent; /* unvalidated; NULL: none */
    int wait_s;        /* Prefer: wait; 0: none */
    unsigned shard;    /* the notification's shard in the store */
};

void gate_publish_open(struct gate *gate);
/* Publications in progress complete without the gate. */
void gate_publish_close(struct gate *gate);

void gate_publish_headers(struct gate_request *request);
void gate_publish(struct gate_request *request);
void gate_publish_free(struct gate_request *request);

/* ---- trace_routes.c */

struct gate_why {
    char *user; /* from the query; NULL: none */
};

void gate_trace(struct gate_request *request);
void gate_why(struct gate_request *request);
void gate_why_free(struct gate_request *request);
void gate_api_receipts(struct gate_request *request);
void gate_console_receipts(struct gate_request *request);

/* ---- idempotency.c: the cache of the newest idempotency keys of each client */

#define IDEMPOTENCY_KEYS_PER_CLIENT 50 /* the oldest key is evicted first */
#define IDEMPOTENCY_CLIENTS_MAX 1000 /* the client without a new key for longest is evicted first */
#define IDEMPOTENCY_DIGEST_MAX 64    /* bytes of the request's digest */

struct idempotency_cache;

struct idempotency_cache *idempotency_cache_new(void);
void idempotency_cache_free(struct idempotency_cache *cache); /* accepts NULL */

/*
 * True if `key` of `client` is cached and not older than `kept_us`. ret_id is its notification;
 * ret_is_same is true if the digest is equal. `epoch` is the store's epoch; a new epoch empties the
 * cache. Times are monotonic, in microseconds.
 */
bool idempotency_cache_find(struct idempotency_cache *cache, const char *epoch, const char *client,
                            const char *key, const char *digest, int64_t now_us, int64_t kept_us,
                            bool *ret_is_same, char ret_id[FRAME_UUID_TEXT + 1]);

/*
 * Adds a key that the store recorded at `now_us` or later, so that the cached key expires first.
 * Copies the strings; ignores a digest or id that exceeds its limit.
 */
void idempotency_cache_add(struct idempotency_cache *cache, const char *epoch, const char *client,
                           const char *key, const char *digest, const char *id, int64_t now_us);

/* Removes a key whose notification the store has lost. */
void idempotency_cache_remove(struct idempotency_cache *cache, const char *client, const char *key);

/* ---- ack_routes.c */

void gate_api_ack(struct gate_request *request);
void gate_api_nack(struct gate_request *request);

/* ---- public_routes.c */

void gate_probe_healthz(struct conn *conn, struct response *ret_response);
void gate_probe_readyz(struct conn *conn, struct response *ret_response);
void gate_probe_metrics(struct conn *conn, struct response *ret_response);

/* The documents of the API, embedded at build time, and their ETags. */
extern const char gate_api_openapi[];
extern const char gate_api_openapi_etag[];
extern const char gate_api_asyncapi[];
extern const char gate_api_asyncapi_etag[];

/* Responds with the document of the path. */
void gate_api_document(struct conn *conn, struct response *ret_response);

/* ---- cutoff_routes.c */

#define GATE_BAD_USER "the user in the path must have 1 to 255 bytes of UTF-8"

struct gate_user {
    char *name; /* of the path; NULL: invalid */
};

void gate_user_headers(struct gate_request *request);
void gate_user_free(struct gate_request *request);
void gate_api_cutoff(struct gate_request *request);
void gate_api_logout(struct gate_request *request);

/* ---- operator_routes.c */

void gate_audit(struct gate_request *request);
void gate_forget(struct gate_request *request);
void gate_api_drop(struct gate_request *request);
void gate_api_realtime(struct gate_request *request);

/* ---- web_push_routes.c */

/* A test of all subscriptions of a user. */
struct gate_push_test {
    struct gate_push *pushes; /* one for each subscription */
    size_t count;
    size_t waiting; /* without a result */
};

/* Without a sender, and without the role gate, the routes of Web Push do not exist. */
void gate_web_push_open(struct gate *gate, struct web_push_sender *sender);
void gate_web_push_close(struct gate *gate);

void gate_web_push_key(struct conn *conn, struct response *ret_response);
void gate_web_push_list(struct gate_request *request);
void gate_web_push_subscribe(struct gate_request *request);
void gate_web_push_unsubscribe(struct gate_request *request);
void gate_web_push_test(struct gate_request *request);
void gate_web_push_test_free(struct gate_request *request);

/* ---- console.c */

/* The files of the page, embedded at build time. */
extern const char gate_console_index_html[];
extern const char gate_console_console_css[];
extern const char gate_console_console_js[];

/* Responds with the file of the path. */
void gate_console_file(struct conn *conn, struct response *ret_response);
/* Redirects /console/. */
void gate_console_folder(struct conn *conn, struct response *ret_response);

struct gate_console_user {
    size_t sessions; /* sessions of the user on this process */
};

void gate_console_overview(struct gate_request *request);
void gate_console_errors(struct gate_request *request);
void gate_console_latest(struct gate_request *request);
void gate_console_user(struct gate_request *request);
void gate_console_subscriptions(struct gate_request *request);
void gate_console_rules(struct gate_request *request);
void gate_console_redrive(struct gate_request *request);
void gate_console_drop(struct gate_request *request);

#endif
