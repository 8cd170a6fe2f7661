/* request.h: a pending HTTP request and its route. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_H
#define CLAIRON_GATE_HTTP_REQUEST_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "base/buffer.h"
#include "gate/net/conn_io.h"
#include "hub/session/session.h"
#include "wire/frame.h"
#include "wire/token.h"

struct gate;
struct response;
struct store_request;
struct gate_peer;
struct gate_redeem;
struct gate_request;

/*
 * The listener that serves a route if gate.admin_listen is set; otherwise gate.listen serves all.
 */
enum gate_listener { GATE_LISTENER_CLIENTS, GATE_LISTENER_ADMIN, GATE_LISTENER_BOTH };

/* The claim that a route requires, in the order of the checks. */
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
    /* Responds immediately, without a token. NULL: needs a token, and `handle` responds. */
    void (*respond)(struct gate *gate, struct response *ret_response);
    enum gate_claim claim;
    size_t body_max;                              /* bytes; 0: a GET, any body is discarded */
    void (*handle)(struct gate_request *request); /* token verified, body complete */
    size_t state_bytes;                           /* size of request->route_state */
    /* Reads headers, which are freed before the body is complete; may be NULL. */
    void (*read_headers)(struct gate_request *request);
    void (*free_state)(
        struct gate_request *request); /* frees the contents of route_state; may be NULL */
    bool is_rate_exempt;               /* health probe: request_rate does not apply */
    bool is_prefix;                    /* path ends in /, a UUID follows */
    bool body_optional;
    bool accepts_ticket;
    bool is_console;         /* needs gate.console, and an Origin of the same host */
    bool ends_on_half_close; /* a half-close ends the request */
    bool limits_its_wait;    /* WAITING ends by the handler, not for the store */
    bool is_stream;          /* counts as a connection and has the callbacks below */
    /* Adds the lines of one frame. False: full; session_writable is called later. */
    bool (*on_lines)(struct gate_request *request, const char *text, size_t len);
    void (*on_writable)(struct gate_request *request);    /* `out` is empty; may be NULL */
    void (*on_half_closed)(struct gate_request *request); /* may be NULL */
    void (*on_sweep)(struct gate_request *request, int64_t now_us, int64_t wall_us);
    /*
     * Closes the stream, with a bye where the protocol has one. in_ms: reconnect delay, -1: none.
     */
    void (*on_end)(struct gate_request *request, int code, const char *reason, int64_t in_ms);
};

/*
 * The states of a request. Only gate_request_set_state changes it. In each state the socket may be
 * closed, which frees the request (gate_request_closed).
 *
 * READING: it receives its body. A request without a body is handled in this state, as soon as its
 * token is verified. Next: WAITING, OPEN, ENDING.
 *
 * WAITING: its handler runs, or it waits for the store: for the token of a ticket, or for a reply
 * that its handler needs. The handler may request another one. Next: WAITING, OPEN, ENDING.
 *
 * OPEN: it is a stream, and has a session. Next: ENDING.
 *
 * ENDING: its response is complete, and `out` holds the part not written yet. It gets no second
 * response. Next: LINGERING.
 *
 * LINGERING: the response is written and the socket half-closed. Further input is discarded, so
 * that a client that still sends can read the response.
 */
enum gate_request_state {
    GATE_REQUEST_READING,
    GATE_REQUEST_WAITING,
    GATE_REQUEST_OPEN,
    GATE_REQUEST_ENDING,
    GATE_REQUEST_LINGERING
};

/* A bounded list of requests. */
struct gate_request_list {
    struct gate_request *first; /* oldest first */
    int count;
};

/* Callbacks from the lower files into requests.c. */
struct request_handler {
    void (*on_body)(struct gate_request *request);    /* body complete */
    void (*on_written)(struct gate_request *request); /* response written to the socket */
};

struct requests {
    const struct request_handler *handler;
    struct gate_request *first;
    struct gate_request_list in_progress; /* requests in progress, without polls and streams */
    struct gate_request_list lingering;   /* requests with a written response */
    size_t body_bytes;                    /* bytes of all bodies in `in_progress` */
};

/* Times are monotonic, in microseconds. */
struct gate_request {
    struct gate *gate;
    struct conn_io io;
    struct gate_request *prev; /* in requests->first */
    struct gate_request *next;
    struct gate_request_list *list; /* the bounded list it is in; NULL: none */
    struct gate_request *list_prev;
    struct gate_request *list_next;
    struct ev_io readable; /* the socket's reads and writes bypass lws */
    struct ev_io writable;
    int64_t body_left; /* bytes of the body not received yet; GATE_BODY_LEN_UNKNOWN: chunked */
    size_t discarded;  /* bytes received after the body */
    bool half_closed;  /* by the client */
    bool is_counted;   /* counted as a connection */
    bool has_ended;    /* close the socket in the next loop iteration */
    const struct gate_route *route;
    enum gate_request_state state;
    int64_t since_us; /* start of the state */
    int64_t unwritable_us;
    char *origin;                    /* allowed Origin, for CORS headers; NULL: no Origin header */
    char conn_id[SESSION_CONN_SIZE]; /* of its session, even after it was detached */
    struct token token;
    struct gate_redeem *redeem; /* while WAITING for a ticket */
    struct store_request *store_request;
    char id[FRAME_UUID_TEXT + 1]; /* from the path, in lower case */
    struct gate_peer *peer;
    struct session *session; /* only while OPEN */
    struct buffer body;
    struct buffer out;
    size_t out_sent;
    alignas(max_align_t) unsigned char route_state[]; /* state of the route */
};

/* The fields of a log line about a request; NULL ones are left out. */
#define LOG_REQUEST(request)                                                                       \
    LOG_TEXT("path", (request)->route->path),                                                      \
        LOG_TEXT("conn", (request)->conn_id[0] != '\0' ? (request)->conn_id : NULL),               \
        LOG_TEXT("user", (request)->token.user)

/* The only way to change the state. Aborts on a transition that is not listed above. */
void gate_request_set_state(struct gate_request *request, enum gate_request_state state);
/*
 * Detaches the session. Call it from the loop, never from the hub, which may be iterating its
 * sessions.
 */
void gate_request_detach(struct gate_request *request);

#endif
