/* request.h: an HTTP request that is not answered at once, and the route that it takes. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_H
#define CLAIRON_GATE_HTTP_REQUEST_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "base/buffer.h"
#include "gate/net/conn_io.h"
#include "wire/frame.h"
#include "wire/token.h"

struct gate;
struct response;
struct store_request;
struct gate_peer;
struct gate_redeem;
struct gate_request;
struct session;

/* Which address serves a route, where gate.admin_listen is set; else gate.listen serves all. */
enum gate_listener { GATE_LISTENER_CLIENTS, GATE_LISTENER_ADMIN, GATE_LISTENER_BOTH };

/* What the token of a request must claim, in the order of the checks. */
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
    bool serves_any_role; /* also of a process without the role gate */
    const char *methods;  /* as of `Allow` */
    /* The response to anybody, at once; NULL: a token is needed, and `handle` answers. */
    void (*respond)(struct gate *gate, struct response *ret_response);
    enum gate_claim claim;
    size_t body_max;                              /* bytes; 0: a GET, whose body is discarded */
    void (*handle)(struct gate_request *request); /* the token is valid, the body complete */
    size_t state_bytes;                           /* of request->route_state */
    /* Reads headers, which are gone once the body came; may be NULL. */
    void (*read_headers)(struct gate_request *request);
    void (*free_state)(struct gate_request *request); /* what `own` points to; may be NULL */
    bool is_rate_exempt; /* of a monitor of the relay: never too often */
    bool is_prefix;      /* the path ends in a / and an id follows */
    bool body_optional;
    bool accepts_ticket;
    bool is_console;         /* there only with gate.console, and only for pages of the same host */
    bool ends_on_half_close; /* a client that half-closes counts as gone */
    bool is_stream;          /* stays: counts as a connection, and has what follows */
    /* The lines of one frame; false: no more now, session_writable follows. */
    bool (*on_lines)(struct gate_request *request, const char *text, size_t len);
    void (*on_writable)(struct gate_request *request); /* nothing of `out` is left; may be NULL */
    void (*on_half_closed)(struct gate_request *request); /* may be NULL */
    void (*on_sweep)(struct gate_request *request, int64_t now_us, int64_t wall_us);
    /* This connection is to end: bye, where the route can send it. in_ms -1: not told. */
    void (*on_end)(struct gate_request *request, int code, const char *reason, int64_t in_ms);
};

/*
 * READING the body or ASKING the store -> OPEN, a stream -> ENDING, `out` is the last -> LINGERING,
 * all is written, and what still comes is discarded.
 */
enum gate_request_state {
    GATE_REQUEST_READING,
    GATE_REQUEST_WAITING,
    GATE_REQUEST_OPEN,
    GATE_REQUEST_ENDING,
    GATE_REQUEST_LINGERING
};

/* Requests of which there may be so many only. */
struct gate_request_list {
    struct gate_request *first; /* the oldest */
    int count;
};

/* What request.c does on events of the files below it. */
struct request_handler {
    void (*on_body)(struct gate_request *request);    /* all of it is there */
    void (*on_written)(struct gate_request *request); /* so is the response, in the socket */
};

struct requests {
    const struct request_handler *handler;
    struct gate_request *first;
    struct gate_request_list posts;     /* all but polls and streams */
    struct gate_request_list lingering; /* those that are answered */
    size_t body_bytes;                  /* of all posts */
};

/* Times are monotonic, in us. */
struct gate_request {
    struct gate *gate;
    struct conn_io io;
    struct gate_request *prev; /* in requests->first */
    struct gate_request *next;
    struct gate_request_list *list; /* in which it has one; NULL: none */
    struct gate_request *list_prev; /* in them */
    struct gate_request *list_next;
    struct ev_io readable; /* lws reads and writes no more of it */
    struct ev_io writable;
    int64_t body_left; /* bytes of the body that are to come; INT64_MAX: unknown */
    size_t discarded;  /* bytes that came besides */
    bool half_closed;  /* by the client */
    bool is_counted;   /* as a connection */
    bool has_ended;    /* the socket is to be closed */
    const struct gate_route *route;
    enum gate_request_state state;
    int64_t since_us; /* of the state */
    int64_t unwritable_us;
    char *origin; /* whose pages may read the response; NULL: no page asks */
    char *log_context;
    struct token token;
    struct gate_redeem *redeem; /* while ASKING */
    struct store_request *store_request;
    char id[FRAME_UUID_TEXT + 1]; /* of the path, a UUID in lower case */
    struct gate_peer *peer;
    struct session *session; /* while OPEN */
    struct buffer body;
    struct buffer out;
    size_t out_sent;
    alignas(max_align_t) unsigned char route_state[]; /* of the route */
};

void gate_request_set_state(struct gate_request *request, enum gate_request_state state);
/* Ends its session. From the loop, never from within the hub: it may be walking its sessions. */
void gate_request_detach(struct gate_request *request);

#endif
