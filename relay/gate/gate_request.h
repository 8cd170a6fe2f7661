/* gate_request.h: what the files of the gate share about plain HTTP; no one else includes it. */
#ifndef CLAIRON_GATE_GATE_REQUEST_H
#define CLAIRON_GATE_GATE_REQUEST_H

#include "gate/gate_conn.h"
#include "wire/http_head.h"

#define GATE_TARGET_MAX 256 /* bytes of a path */
#define GATE_JSON "application/json"
#define GATE_BODY_MAX (1024 * 1024) /* of a request */
#define GATE_HEADER_POOL 1024       /* requests whose headers lws holds at a time */

struct gate_answer {
    int status;
    const char *type;
    bool head; /* the body's length, but not the body */
    struct buffer headers;
    struct buffer body;
};

/* response.c */
void gate_answer_init(struct gate_answer *answer, int status, const char *type);
/* As RFC 9457 has it; `code` is one of `err`, or 0. */
void gate_answer_problem(struct gate_answer *answer, int status, int code, const char *sentence);
/* A line without its \r\n; one that does not fit is left out. */
void gate_answer_header(struct gate_answer *answer, const char *format, ...) PRINTF_LIKE(2, 3);
/* Lets pages of `origin` read the answer; NULL changes nothing. */
void gate_answer_allow(struct gate_answer *answer, const char *origin);
/* The whole, behind LWS_PRE bytes of headroom, and frees the answer. */
MUST_CHECK enum rc gate_answer_build(struct gate_answer *answer, struct buffer *out);
/* Writes and frees it, from a callback of lws; always -1: every answer ends its connection. */
int gate_answer_send(struct lws *wsi, struct gate_answer *answer);

struct gate_request;

/* Which address serves a route, where gate.admin_listen is set; else gate.listen serves all. */
enum gate_side { GATE_SIDE_CLIENTS, GATE_SIDE_ADMIN, GATE_SIDE_BOTH };

struct gate_route {
    const char *path;
    enum gate_side side;
    bool is_process;     /* also of a process without the role gate */
    const char *methods; /* as of `Allow` */
    /* What anybody is told at once; NULL: a token is needed, and `act` answers. */
    void (*answer)(struct gate *gate, struct gate_answer *ret_answer);
    void (*act)(struct gate_request *request); /* the token is good, the body complete */
    /* Reads headers that are gone once the body came; may be NULL. */
    void (*headers)(struct gate_request *request);
    bool is_probe;  /* of who watches over the relay: never too often */
    bool is_prefix; /* the path ends in a / and an id follows */
    bool is_post;
    bool needs_no_body;
    bool takes_ticket;
    bool is_console;   /* there only with gate.console, and only for pages of the same host */
    bool needs_client; /* a client that says no more is taken for gone */
    bool is_stream;    /* stays: counts as a connection, and has what follows */
    /* Takes the lines of one frame; false: no more now, session_writable follows. */
    bool (*on_lines)(struct gate_request *request, const char *text, size_t len);
    void (*on_writable)(struct gate_request *request); /* nothing of `out` is left; may be NULL */
    void (*on_sweep)(struct gate_request *request, int64_t now_us, int64_t wall_us);
    /* This connection is to end: bye, where the route can say it. in_ms -1: not told. */
    void (*end)(struct gate_request *request, int code, const char *reason, int64_t in_ms);
};

/*
 * READING the body or ASKING the store -> OPEN, a stream -> ENDING, `out` is the last -> LINGERING,
 * all is written, and what still comes is thrown away.
 */
enum gate_request_state {
    GATE_REQUEST_READING,
    GATE_REQUEST_ASKING,
    GATE_REQUEST_OPEN,
    GATE_REQUEST_ENDING,
    GATE_REQUEST_LINGERING
};

/* One HTTP request that is not answered at once. Times are monotonic, in us. */
struct gate_request {
    struct gate *gate;
    struct lws *wsi;
    struct gate_request *prev; /* in gate->requests */
    struct gate_request *next;
    struct gate_places *places;      /* of the gate's, in which it has one; NULL: none */
    struct gate_request *place_prev; /* in them */
    struct gate_request *place_next;
    struct ev_io readable; /* lws reads and writes no more of it */
    struct ev_io writable;
    int64_t body_left; /* bytes of the body that are to come; INT64_MAX: nobody knows */
    size_t thrown;     /* bytes of what it said besides */
    bool said_all;     /* the client's end of the connection is closed */
    bool is_counted;   /* as a connection */
    const struct gate_route *route;
    enum gate_request_state state;
    bool has_ended; /* the socket is to be closed */
    char *origin;   /* whose pages may read the answer; NULL: no page asks */
    char *who;
    struct token token;
    struct gate_redeem *redeem; /* while ASKING */
    struct gate_keeping *keeping;
    struct gate_asked *asked;
    char *key;         /* Idempotency-Key; NULL: none */
    char *traceparent; /* as given; NULL: none */
    int wait_s;        /* of Prefer; 0: none */
    char *asked_pos;   /* of SSE; NULL: none */
    char *asked_topics;
    char id[FRAME_UUID_TEXT + 1]; /* of the path, a UUID in lower case */
    struct gate_peer *peer;
    struct session *session; /* while OPEN */
    size_t user_sessions;    /* here, of the user that gate_console_user is asked about */
    struct buffer body;
    struct buffer out; /* behind LWS_PRE bytes of headroom */
    size_t out_sent;
    int64_t since_us; /* of the state */
    int64_t unwritable_us;
    int64_t ping_due_us;
    int64_t deadline_us;  /* of a poll */
    struct ev_timer look; /* from then on */
    int max;              /* lines of a poll */
    int line_count;
    bool has_news;             /* a poll has lines worth an answer */
    bool is_full;              /* .. and takes no more */
    struct gate_expiry expiry; /* of SSE */
    char pos[SESSION_POS_MAX]; /* of a poll's last line */
};

/* request.c: their lives. What lws gets back: 0, or -1: end the socket. */
int gate_request_begin(struct gate *gate, struct lws *wsi, const struct gate_route *route,
                       const char *id, struct gate_request **slot);
/* Likewise, with its answer, which is freed: what still comes of a body is passed over. */
int gate_request_pass_over(struct gate *gate, struct lws *wsi, struct gate_answer *answer,
                           struct gate_request **slot);
void gate_request_body_end(struct gate_request *request); /* all of it is there */
void gate_request_closed(struct gate_request *request);
void gate_requests_sweep(struct gate *gate, int64_t now_us, int64_t wall_us);

/*
 * request_slots.c: requests under way, which have a ceiling together: those whose body is waited
 * for longest make room. False: there is none, and the request is answered.
 */
bool gate_body_begin(struct gate_request *request);
void gate_body_add(struct gate_request *request, const char *bytes, size_t len);
void gate_body_end(struct gate_request *request); /* accepts one that has no place */
/* Its body is done with; it waits for its client to see that, and the oldest that does no more. */
void gate_body_linger(struct gate_request *request);
/* Is it one that we take? Else the request is answered. While lws has the request's headers. */
void gate_body_check(struct gate_request *request);
/* Bytes as they are announced; more than GATE_BODY_MAX: too many. INT64_MAX: in chunks. */
int64_t gate_body_len(struct lws *wsi);

/*
 * request_body.c: lws gives up the headers, and reads no more; a body that is complete already is
 * acted on. _take: bytes that lws had read with the head.
 */
void gate_rest_start(struct gate_request *request);
void gate_rest_take(struct gate_request *request, const char *bytes, size_t len);
void gate_rest_stop(struct gate_request *request);

/* response_writer.c: writes what is in `out`, and after the last of it ends the connection. */
void gate_reply_start(struct gate_request *request);
void gate_reply_stop(struct gate_request *request);
void gate_request_want_write(struct gate_request *request);
/* Ends the socket, later in this turn of the loop: neither within lws nor within the hub. */
void gate_request_kill(struct gate_request *request);

/* Queues the answer, which is the request's end. Frees the answer. */
void gate_request_answer(struct gate_request *request, struct gate_answer *answer);
void gate_request_problem(struct gate_request *request, int status, int code, const char *sentence);
/* Likewise, when the body was written with `written`; what is not whole is a problem instead. */
void gate_request_answer_whole(struct gate_request *request, struct gate_answer *answer,
                               enum rc written);
/* Attaches a session to its token; it speaks to this request. */
void gate_request_attach(struct gate_request *request, struct session_request *wanted);
void gate_request_set_state(struct gate_request *request, enum gate_request_state state);
void gate_request_detach(struct gate_request *request); /* from its session, from the loop */

/*
 * head.c: what has come of a request. RC_OK: lws may read it; RC_AGAIN: so far, and more is to
 * come; RC_BAD: *ret_answer says why not.
 */
MUST_CHECK enum rc gate_head_judge(const struct gate *gate, int fd, const char *bytes, size_t len,
                                   struct http_head *ret_head, struct gate_answer *ret_answer);
/*
 * libwebsockets takes what stands behind a name that is the beginning of one it knows ("A", of
 * "Accept") for more of that name, up to the next colon: the next header, or the end, which then
 * never comes. Does this head of `len` bytes, which is good, hide one that is read, or its end, so?
 * `mend` gives what would another name.
 */
bool gate_head_hides(char *bytes, size_t len, bool mend);
void gate_head_too_late(struct gate_answer *ret_answer);
#define GATE_LINGER_US 2000000        /* for the client to read why */
#define GATE_LINGER_BYTES (64 * 1024) /* of what it still says */

/* routes.c: the answer to a method that lws does not know: 405, or 404. */
void gate_http_stray_method(const struct gate *gate, int fd, const char *target, size_t len,
                            struct gate_answer *ret_answer);
/* What a request says; lws has its headers until the answer. */
bool gate_http_path(struct lws *wsi, int *ret_method, char path[GATE_TARGET_MAX]);
/*
 * The Origin header, if its pages may speak to us. False: they may not. The caller frees.
 * `origins`: NULL: of the same host.
 */
bool gate_http_origin(struct gate *gate, const char *origins, struct lws *wsi, char **ret_origin);
/* A header by its name in lower case with a colon (also in head.c); as gate_http_argument. */
char *gate_http_header(struct lws *wsi, const char *name, size_t max);

/* Cuts topics between commas in place (NULL: none). False: one that no subscribe would take. */
bool gate_http_topics(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count);
#define GATE_WRONG_TOPICS "topics are names between commas, with a * at their end only"

/* sse.c, poll.c, acks.c */
void gate_sse_headers(struct gate_request *request);
void gate_sse_begin(struct gate_request *request);
/* The position that a line tells: where a reconnecting client goes on. NULL: none. */
struct bytes gate_sse_pos(const char *line, size_t len);
bool gate_sse_lines(struct gate_request *request, const char *text, size_t len);
void gate_sse_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us);
void gate_sse_end(struct gate_request *request, int code, const char *reason, int64_t in_ms);
void gate_poll_begin(struct gate_request *request);
bool gate_poll_lines(struct gate_request *request, const char *text, size_t len);
void gate_poll_writable(struct gate_request *request);
void gate_poll_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us);
/* The client says no more: it is given what there is. */
void gate_poll_hurry(struct gate_request *request);
void gate_poll_end(struct gate_request *request, int code, const char *reason, int64_t in_ms);
void gate_api_ack(struct gate_request *request);
void gate_api_nack(struct gate_request *request);
void gate_api_ticket(struct gate_request *request);
void gate_api_push(struct gate_request *request);
/* The request that a ticket is made for is gone. */
void gate_api_forget(struct gate_keeping *keeping);

/* publish.c */
void gate_publish_headers(struct gate_request *request);
void gate_publish(struct gate_request *request);
/* What is on its way to the store goes on without the gate, which ends. */
void gate_publish_stop(struct gate *gate);
void gate_publish_timeline(struct gate_request *request);
/* 201, or 200 of a repeat; is_synced: with Preference-Applied. */
void gate_publish_answer(struct gate_request *request, bool is_repeated, const char *id,
                         bool is_synced);

/*
 * publish_response.c: is the answer to wait until the store has synced? Then _begin answers, later.
 */
bool gate_sync_is_wanted(const struct gate_request *request);
void gate_sync_begin(struct gate_request *request, const char *key, bool is_repeated,
                     const char *id);
void gate_sync_stop(struct gate *gate);
/* Seconds of "Prefer: wait=10"; 0: none that could be kept. */
int gate_sync_read_prefer(struct lws *wsi);
#define GATE_PREFER_WAIT_MAX 3600

/* console.c, console_page.c: for admins; 404 unless gate.console is on. */
void gate_console_overview(struct gate_request *request);
void gate_console_errors(struct gate_request *request);
void gate_console_latest(struct gate_request *request);
void gate_console_user(struct gate_request *request);
void gate_console_rules(struct gate_request *request);
void gate_console_notify(struct gate_request *request);
void gate_console_redrive(struct gate_request *request);
void gate_console_drop(struct gate_request *request);
void gate_console_page(struct gate *gate, struct gate_answer *ret_answer);
void gate_console_style(struct gate *gate, struct gate_answer *ret_answer);
void gate_console_script(struct gate *gate, struct gate_answer *ret_answer);

/*
 * store_request.c: the store is asked for this request, which may be gone when it answers; _done
 * and _failed free it. _done returns the request if it still waits for this answer, else NULL.
 */
struct gate_asked *gate_asked_new(struct gate_request *request);
struct gate_request *gate_asked_done(struct gate_asked *asked);
void gate_asked_failed(struct gate_asked *asked); /* 503 */
void gate_asked_forget(struct gate_asked *asked); /* the request is gone */

/* It is away, or slow. */
static inline void
gate_request_no_store(struct gate_request *request)
{
    gate_request_problem(request, 503, 0, "the store does not answer");
}

/* False: the request was told so. */
static inline bool
gate_request_is_admin(struct gate_request *request)
{
    if (!request->token.admin)
        gate_request_problem(request, 403, GATE_ERR_PERMISSION,
                             "the token's claim \"admin\" is not true");
    return request->token.admin;
}

#endif
