/* request.h: HTTP requests, their routes and responses. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_H
#define CLAIRON_GATE_HTTP_REQUEST_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "gate/net/conn.h"
#include "hub/hub.h"
#include "wire/codes.h"
#include "wire/frame.h"
#include "wire/http_body.h"
#include "wire/token.h"

struct gate;
struct store_request;
struct gate_peer;
struct gate_redeem;
struct gate_rejection;
struct gate_request;

#define GATE_JSON "application/json"

struct response {
    int status;
    const char *type;
    bool head;     /* omit the body, but keep its length */
    bool has_etag; /* caches may keep it, and ask whether it has changed */
    struct buffer headers;
    struct buffer body;
    struct out lines; /* the rest of the body, of a poll */
};

void response_init(struct response *response, int status, const char *type);
/* Builds a problem document (RFC 9457). `code` is an enum gate_err, or 0. */
void response_problem(struct response *response, int status, int code, const char *detail);
/* Like response_problem, with an additional header line; NULL: none. */
void response_problem_with(struct response *response, int status, int code, const char *header,
                           const char *detail);
/* Adds a header line, without \r\n. A line that does not fit is dropped. */
void response_header(struct response *response, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds CORS headers for pages of `origin`; NULL: no headers. */
void response_allow_origin(struct response *response, const char *origin);

/*
 * The listener that serves a route if gate.admin_listen is set; otherwise gate.listen serves all
 * routes.
 */
enum gate_listener { GATE_LISTENER_CLIENTS, GATE_LISTENER_ADMIN, GATE_LISTENER_BOTH };

/* The claims that a route requires. The first missing claim in the name is reported. */
enum gate_claim {
    GATE_CLAIM_NONE, /* any valid token */
    GATE_CLAIM_PUBLISH,
    GATE_CLAIM_ADMIN,
    GATE_CLAIM_ADMIN_AND_PUBLISH,
    GATE_CLAIM_PUBLISH_OR_ADMIN,
};

struct gate_route {
    const char *path;
    enum gate_listener side;
    bool serves_any_role; /* served without the role gate */
    const char *methods;  /* value of the Allow header */
    /* Responds immediately, without a token. NULL: a token is required, and `handle` responds. */
    void (*respond)(struct conn *conn, struct response *ret_response);
    enum gate_claim claim;
    /* maximum bytes; 0: a GET, whose body is discarded */
    size_t body_max;
    /* called when the token is verified and the body complete */
    void (*handle)(struct gate_request *request);
    size_t state_bytes; /* size of request->route_state */
    /* Reads headers before they are freed, which is before the body is complete; may be NULL. */
    void (*read_headers)(struct gate_request *request);
    void (*free_state)(
        struct gate_request *request); /* frees the contents of route_state; may be NULL */
    bool is_rate_exempt;               /* health probe: request_rate does not apply */
    const char *suffix;      /* the path is followed by a UUID and this text; NULL: by nothing */
    const char *user_suffix; /* the path is followed by a user and this text; NULL: by nothing */
    bool body_optional;
    bool accepts_ticket;
    bool token_optional;     /* a small body is also handled without a token */
    bool has_credentials;    /* in the body: an Authorization header is ignored */
    bool is_delete;          /* the method is DELETE */
    bool is_web_push;        /* requires webpush.vapid_key_file */
    bool is_console;         /* requires gate.console, and an Origin of the same host */
    bool is_pipelined;       /* POST; several of a connection may be in progress (http1.c) */
    bool ends_on_half_close; /* a half-close cancels the request, and ends the connection */
    bool limits_its_wait;    /* no store timeout: the handler limits WAITING */
    bool is_stream;          /* counts as a connection, and has the callbacks below */
    /* Adds a line of the session. False: full; session_writable will be called. */
    bool (*on_line)(struct gate_request *request, const struct session_line *line);
    /* called when `out` is empty; may be NULL */
    void (*on_writable)(struct gate_request *request);
    void (*on_half_closed)(struct gate_request *request); /* may be NULL */
    void (*on_sweep)(struct gate_request *request, int64_t now_us, int64_t wall_us);
    /* Closes the stream, with a bye if the protocol has one. in_ms: reconnect delay; -1: none. */
    void (*on_end)(struct gate_request *request, int code, const char *reason, int64_t in_ms);
};

/*
 * The states of a request. Only gate_request_set_state changes the state. The connection may be
 * closed in any state, which frees the request.
 *
 * READING: the body is being received. A request without a body is handled in this state, as soon
 * as its token is verified. Next: WAITING, OPEN, ENDING.
 *
 * WAITING: the handler runs, or the request waits for the store: for the token of a ticket, or for
 * a reply that the handler needs. The handler may send another request to the store. Next: WAITING,
 * OPEN, ENDING.
 *
 * OPEN: the request is a stream, and has a session. Next: ENDING.
 *
 * ENDING: the response is complete, and `out` contains the unwritten part. No further response is
 * possible. The request is freed, and the connection serves the next one, unless: Next: LINGERING.
 *
 * LINGERING: the connection is in CONN_LINGERING: the rest of the body is discarded.
 */
enum gate_request_state {
    GATE_REQUEST_READING,
    GATE_REQUEST_WAITING,
    GATE_REQUEST_OPEN,
    GATE_REQUEST_ENDING,
    GATE_REQUEST_LINGERING
};

struct requests {
    struct gate_request *first;
    struct gate_request *in_progress; /* except polls and streams; oldest first */
    int in_progress_count;
    size_t body_bytes;     /* total bytes of the bodies in `in_progress` */
    size_t response_bytes; /* total bytes of the responses in `in_progress` */
};

/* Times are monotonic, in microseconds. */
struct gate_request {
    struct gate *gate;
    struct conn *conn;
    struct gate_request *prev; /* link of requests->first */
    struct gate_request *next;
    struct gate_request *ahead;        /* whose response on this connection precedes; NULL: none */
    struct gate_request *behind;       /* whose response follows; NULL: none */
    struct gate_request *counted_prev; /* link of requests->in_progress */
    struct gate_request *counted_next;
    struct http_body reader; /* of the body */
    size_t discarded;        /* bytes that were read and not used */
    bool is_counted;         /* by the limits: in requests->in_progress */
    bool half_closed;        /* by the client */
    bool is_last;            /* the connection ends after the response */
    bool is_malformed;       /* the end of the request is unknown */
    const struct gate_route *route;
    enum gate_request_state state;
    int64_t since_us; /* time at which the state started */
    int64_t unwritable_us;
    char *origin;                    /* allowed Origin, for CORS headers; NULL: no Origin header */
    char conn_id[SESSION_CONN_SIZE]; /* id of its session, even after detaching */
    struct token token;
    struct gate_redeem *redeem;  /* of its ticket, or the wait for the key of its token */
    struct http_head *kept_head; /* a copy, while the key is fetched; NULL: none */
    struct store_request *store_request;
    char id[FRAME_UUID_TEXT + 1]; /* lower case id in the path */
    struct gate_peer *peer;       /* counts the request as a connection; NULL: not counted */
    struct session *session;      /* set while OPEN */
    struct buffer body;
    struct out out;
    size_t response_len; /* length of `out` when the state became ENDING */
    alignas(max_align_t) unsigned char route_state[]; /* state of the route */
};

/* The log fields that identify a request; NULL fields are omitted. */
#define LOG_REQUEST(request)                                                                       \
    LOG_TEXT("path", (request)->route->path),                                                      \
        LOG_TEXT("conn", (request)->conn_id[0] != '\0' ? (request)->conn_id : NULL),               \
        LOG_TEXT("user", (request)->token.user)

/* ---- request.c: one request */

/* `ahead`: the request of the connection whose response precedes; NULL: none. */
struct gate_request *gate_request_new(struct conn *conn, const struct gate_route *route,
                                      struct gate_request *ahead);
void gate_request_free(struct gate_request *request);
/* The only way to change the state. Ends the connection on a transition that is not listed. */
void gate_request_set_state(struct gate_request *request, enum gate_request_state state);

/* Whether a part of the body was not read, or its end is unknown. */
static inline bool
gate_body_is_unread(const struct gate_request *request)
{
    return request->is_malformed || request->reader.part != HTTP_BODY_COMPLETE;
}

/* Half of the limit is used: then a connection has one request in progress. */
bool gate_requests_are_many(const struct gate *gate);
/*
 * Counts a request. A full list evicts the oldest request with an incomplete body. False: rejected,
 * and a response is queued.
 */
bool gate_request_admit(struct gate_request *request);
/* Adds bytes to the body. May reject the request. */
void gate_request_add_body(struct gate_request *request, const char *bytes, size_t len);
/* The limits count it no longer; frees the body. Accepts any request. */
void gate_request_uncount(struct gate_request *request);

void gate_request_want_write(struct gate_request *request);
/* Writes what is queued. True: the response is written completely. */
MUST_CHECK bool gate_request_write(struct gate_request *request);

/* Queues the final response and frees it. */
void gate_request_respond(struct gate_request *request, struct response *response);
void gate_request_respond_empty(struct gate_request *request); /* status 204 */
/* Returns the argument `limit` of the query; `missing` without it, 0 if it is invalid. */
unsigned gate_request_limit(const struct gate_request *request, unsigned missing, unsigned max);
void gate_request_problem(struct gate_request *request, int status, int code, const char *sentence);
void gate_request_reject(struct gate_request *request, const struct gate_rejection *rejection);
void gate_request_body_too_large(struct gate_request *request); /* status 413 */
/* Status 503: the store is down or slow, or rejects writes. */
void gate_request_no_store(struct gate_request *request);
/* Queues the response if its body was written completely (RC_OK), otherwise status 500. */
void gate_request_respond_whole(struct gate_request *request, struct response *response,
                                enum rc written);

/* A request to the store, which may outlive its HTTP request. */
struct store_request *store_request_new(struct gate_request *request);
/* Frees it. Returns the HTTP request if it still waits for this reply, otherwise NULL. */
struct gate_request *store_request_done(struct store_request *store_request);
/* Like store_request_done, for a reply: unless rc is RC_OK, responds with 503 and returns NULL. */
struct gate_request *store_request_reply(struct store_request *store_request, enum rc rc);
/* The request was sent to the store. Unless rc is RC_OK, ends it and responds with 503. */
void store_request_sent(struct store_request *store_request, enum rc rc);

/* ---- http1.c: requests of a connection */

/* The events of a connection in HANDSHAKE, HEAD and KEPT. */
extern const struct conn_events GATE_HEAD_EVENTS;

void gate_requests_sweep(struct gate *gate, int64_t now_us, int64_t wall_us);
/* Responds with 408 to incomplete heads. */
void gate_heads_sweep(struct gate *gate, int64_t now_us);

/* Starts a request whose head is conn->head. `id` is the UUID in the path, or empty. */
void gate_request_begin(struct conn *conn, const struct gate_route *route, const char *id);
/* Sends and frees the response to a request that needs no token, and discards its body. */
void gate_request_reply(struct conn *conn, struct response *response);

/* ---- origin.c: the Origin of web pages */

/* Whether gate.origins (NULL: same host only) allows pages of `origin` to access `host`. Pure. */
bool gate_origin_allowed(const char *origins, const char *origin, const char *host);

#define GATE_ORIGIN_NOT_ALLOWED "origin not allowed"

/*
 * Reads the Origin header if it is allowed; NULL: absent. False: not allowed, which is logged at a
 * limited rate. `origins` NULL: same host only. The caller frees *ret_origin.
 */
bool gate_origin_read(struct conn *conn, const char *origins, char **ret_origin);

#endif
