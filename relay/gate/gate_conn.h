/* gate_conn.h: what the files of the gate share; no one else includes it. */
#ifndef CLAIRON_GATE_GATE_CONN_H
#define CLAIRON_GATE_GATE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ev.h>
#include <libwebsockets.h>
#include <openssl/ssl.h>

#include "base/buffer.h"
#include "base/rates.h"
#include "base/region.h"
#include "base/throttle.h"
#include "gate/gate.h"
#include "hub/session.h"
#include "store/ticket.h"
#include "wire/token.h"
#include "wire/ws_reader.h"

#define GATE_PROTOCOL "clairon.v1.json"
#define GATE_CLOSE_REASON_MAX 160
#define GATE_RECEIVED_MAX (16 * 1024)
#define GATE_HEAD_BYTES_MAX (TOKEN_BYTES_MAX + 4096) /* of one request: a token and the rest */
#define GATE_TEXT_OF_(value) #value
#define GATE_TEXT_OF(value) GATE_TEXT_OF_(value)
#define GATE_RETRY_AFTER_S 5
/*
 * Of the frame with "connect": a token, topics and a position, with room for escapes. Anybody may
 * send the beginning of one and wait.
 */
#define GATE_FIRST_FRAME_MAX (20 * 1024)

enum gate_code { /* of `bye` and of the WebSocket close */
                 GATE_CLOSE_BROKEN = 1002,
                 GATE_CLOSE_BINARY = 1003,
                 GATE_CLOSE_UTF8 = 1007,
                 GATE_CLOSE_TOO_LONG = 1009,
                 GATE_CLOSE_PROTOCOL = 4000,
                 GATE_CLOSE_TOKEN = 4001,
                 GATE_CLOSE_NO_CONNECT = 4002,
                 GATE_CLOSE_EXPIRED = 4100,
                 GATE_CLOSE_SLOW = 4101,
                 GATE_CLOSE_NO_PONG = 4102,
                 GATE_CLOSE_OVERLOADED = 4103,
                 GATE_CLOSE_RESTART = 4201,
};

enum gate_err { /* of `err` */
                GATE_ERR_UNAUTHORISED = 101,
                GATE_ERR_PERMISSION = 103,
                GATE_ERR_BAD_REQUEST = 107,
                GATE_ERR_EXPIRED = 109,
                GATE_ERR_RATE = 111,
};

/*
 * WAITING for the connect frame -> OPEN, with a session -> CLOSING, the bye and the close frame
 * are to be written -> CLOSED, nothing is written any more. Any state may go to a later one.
 */
enum gate_conn_state { GATE_CONN_WAITING, GATE_CONN_OPEN, GATE_CONN_CLOSING, GATE_CONN_CLOSED };

struct gate_head; /* of a request that is to come */
struct gate_tls_head;
struct gate_peer;    /* an address with connections */
struct gate_redeem;  /* a ticket that the store is asked for */
struct gate_request; /* gate_request.h */
struct funnel;
struct gate_syncing; /* a notification that is stored, and may not be on disk */
struct gate_running; /* a notification that is being stored */

/* Why a connection is not taken. */
struct gate_refusal {
    int status;
    const char *retry_after; /* a header line, or NULL */
    const char *sentence;
};

/* When who has a token is told that it ends, and when it does. */
struct gate_expiry {
    int64_t expires_s;  /* Unix seconds */
    int64_t told_at_us; /* Unix time */
    bool is_told;
};

/* Requests of which there may be so many only. */
struct gate_places {
    struct gate_request *first; /* the oldest */
    int count;
};

/* What lws keeps for each socket. */
struct gate_slot {
    struct gate_conn *conn;
    struct gate_request *request;
};

/* One WebSocket; begins in ESTABLISHED, freed in CLOSED. Times are monotonic, in us. */
struct gate_conn {
    /* What each send looks at, together. */
    enum gate_conn_state state;
    bool is_tls;
    bool in_turn;    /* lws says that the socket can be written */
    bool lws_first;  /* a call of gate_ws_writable is under way: nothing goes past it */
    bool is_killed;  /* lws ends the socket at its next turn */
    bool is_waiting; /* in gate->waiting */
    bool is_evicted; /* counted in gate->evicted_count */
    struct ev_io readable;
    struct gate *gate;
    struct lws *wsi;
    struct gate_conn *prev; /* in gate->conns */
    struct gate_conn *next;
    struct session *session; /* while OPEN, and CLOSING until the bye is written */
    char *who;               /* for the log: "gate", later "conn=.. user=.." */
    char *user;              /* NULL until the token was seen */
    char *bearer;            /* token of the upgrade, until the connect frame */
    char *ticket;            /* likewise */
    struct gate_redeem *redeem;
    struct client_message *connect; /* waits for the ticket */
    struct gate_peer *peer;
    struct gate_conn *waiting_prev; /* in gate->waiting, until "connect" */
    struct gate_conn *waiting_next;
    struct rate_bucket lines;
    int64_t rate_told_until_us;  /* of lines that nobody answers, that there are too many */
    int64_t paid_until_us;       /* of what it said, at the rate that it may; read.c */
    int64_t held_us;             /* when it was last held back */
    int64_t flood_since_us;      /* and since when again and again */
    struct gate_conn *next_held; /* in gate->held; not read from for a while */
    bool is_held;
    struct gate_expiry expiry;
    uint64_t groups_hash;
    bool close_sent;
    int close_code;
    int64_t state_since_us;
    int64_t ping_due_us;
    int64_t pinged_us; /* 0: no ping is unanswered */
    int unsent;        /* bytes in the socket, while its end waits for the client to take them */
    int64_t taken_us;  /* when that last changed */
    int64_t unwritable_us; /* since when we wait for the socket; 0: we do not */
    char *close_reason;    /* NULL while open */
    struct ws_reader reader;
    struct buffer in;      /* pieces of a message still coming */
    size_t in_valid;       /* bytes of it that are whole characters */
    struct buffer out;     /* own lines, behind LWS_PRE bytes of headroom */
    struct buffer control; /* control frames with their headers, behind the same */
};

struct gate {
    struct ev_loop *loop;
    const struct config *config;
    struct hub *hub;
    struct stats *stats;
    struct gate_health health;
    struct lws_context *context;
    SSL_CTX *tls; /* lws's; NULL without a certificate */
    struct gate_conn *conns;
    struct gate_conn *held;
    struct gate_conn *waiting; /* for "connect", the longest first */
    struct ev_timer unhold;
    int conn_count;
    int evicted_count; /* of them: make room, and end in the loop's next turn */
    struct token_rules rules;
    struct ev_timer sweep;
    unsigned turns_counted; /* of the loop, at the last sweep */
    struct gate_request *requests;
    int stream_count;             /* of those requests: SSE and polls */
    int clients_swept;            /* connections and streams, at the last sweep */
    int clients_trimmed;          /* .. and when the heap was last trimmed */
    struct gate_places posts;     /* of those requests: all but polls and streams */
    struct gate_places lingering; /* of all of them, those that are answered */
    size_t body_bytes;            /* of all posts */
    struct gate_peer *peers;
    struct gate_head *heads;  /* of requests to come, the oldest first */
    struct gate_head *hellos; /* of TLS, that wait for a place, the oldest first */
    struct region head_places;
    struct gate_tls_head *tls_heads;
    int tls_head_count;
    struct gate_tls_head *tls_partial; /* those that came in part */
    int tls_partial_count;
    struct gate_running *running; /* by Idempotency-Key */
    struct gate_syncing *syncing;
    struct funnel *funnel; /* the newest of those keys */
    struct rate_bucket connects;
    struct rates *requests_made; /* by users, and by addresses */
    struct throttle address_full;
    struct throttle origin_refused;
    struct throttle token_refused;
    int64_t opened_us; /* on the monotonic clock */
    bool is_push_off;
    bool draining;
    int64_t drain_until_us;
    void (*on_drained)(void *ctx); /* NULL once called */
    void *drained_ctx;
    struct lws_vhost *vhost;
    struct ev_io acceptable;       /* on a descriptor of main's; fd -1: none */
    struct ev_io admin_acceptable; /* likewise */
    unsigned char *admin_fds;      /* a bit for each descriptor: came by gate.admin_listen */
    size_t admin_fds_len;
    struct ev_timer accept_pause;
    int descriptors_most; /* beyond, what is left is not for who has not asked yet */
    int64_t said_full_us; /* when it was last said that no descriptor is left; monotonic */
    unsigned char received[GATE_RECEIVED_MAX]; /* by one connection at a time */
};

/* gate.c: what lws calls. */
extern const struct lws_protocols GATE_PROTOCOLS[];

/* accept.c: takes connections. `reason` gets a sentence without a full stop. */
MUST_CHECK enum rc gate_accept_start(struct gate *gate, struct gate_sockets sockets, char *reason,
                                     size_t size);
void gate_accept_stop(struct gate *gate);
/*
 * Hands a connection to lws, which owns it from then on. NULL: it would not have it, and closed it.
 */
struct lws *gate_accept_adopt(struct gate *gate, int fd);
/* Likewise with the first bytes of `received`, which the client said; not the end of a head. */
void gate_accept_adopt_bytes(struct gate *gate, int fd, size_t len);
/* Did the open connection `fd` come by gate.admin_listen? */
bool gate_fd_is_admin(const struct gate *gate, int fd);

/* listen.c: did it come by a unix socket? */
bool gate_fd_is_unix(const struct gate *gate, int fd);

/*
 * head.c: a new connection, without TLS: its request's head is looked at before lws sees it.
 */
void gate_heads_init(struct gate *gate);
void gate_head_begin(struct gate *gate, int fd);
void gate_heads_sweep(struct gate *gate, int64_t now_us);
void gate_heads_close(struct gate *gate);
/* Takes who waits to shake hands, if there is a place now. */
void gate_heads_go_on(struct gate *gate);
/* Ends the oldest connection that has yet to ask, or is answered already. False: there is none. */
bool gate_heads_give_way(struct gate *gate);

/*
 * tls_head.c: the same over TLS. lws reads nothing that was not judged, until _done: it has
 * the request, or the connection is gone.
 */
bool gate_head_tls_has_room(const struct gate *gate);
void gate_head_tls_begin(struct gate *gate, int fd); /* when it has room */
void gate_head_tls_done(struct lws *wsi);
void gate_heads_tls_sweep(struct gate *gate, int64_t now_us);
bool gate_heads_tls_give_way(struct gate *gate);

/* origin.c: may a page of `origin` talk to the `host` it asked for? Pure. */
bool gate_origin_allowed(const char *origins, const char *origin, const char *host);

/* refusals.c: logs what was refused, not each time. `where`: a path. */
void gate_refused_origin(struct gate *gate, const char *origins, const char *origin,
                         const char *host);
void gate_refused_token(struct gate *gate, const char *where, const char *error);

/* routes.c: plain HTTP; every answer closes its connection. */
int gate_http_request(struct gate *gate, struct lws *wsi, struct gate_request **slot);
/* The token of `Authorization: Bearer`; one that does not fit is a text that fails. NULL: none. */
char *gate_http_bearer(struct lws *wsi);
/* Both a ticket and a token: who it is would be a guess. */
bool gate_http_has_two_proofs(struct lws *wsi);
#define GATE_TWO_PROOFS "a ticket and a token were given: give one"
#define GATE_TICKET_MAX 64
/* An argument of the query, as "pos="; NULL: none; GATE_TOO_LONG: longer. The caller frees. */
#define GATE_TOO_LONG "?"
char *gate_http_argument(struct lws *wsi, const char *name, size_t max);

/* upgrade.c. 0: the upgrade may go on; -1: refused, with an answer. */
int gate_http_upgrade(struct gate *gate, struct lws *wsi);

/* limits.c: are streams (is_push: that push) served? False: *ret_refusal says why not. */
bool gate_serves(const struct gate *gate, bool is_push, struct gate_refusal *ret_refusal);
/* And may one more come? Likewise; while lws has the request's headers. */
bool gate_admits(struct gate *gate, struct lws *wsi, bool is_push,
                 struct gate_refusal *ret_refusal);
bool gate_admits_user(const struct gate *gate, const char *user);
/* Counts a connection of its address. While lws has the request's headers. */
struct gate_peer *gate_peer_enter(struct gate *gate, struct lws *wsi);
void gate_peer_leave(struct gate *gate, struct gate_peer *peer); /* accepts NULL */
/*
 * gate.request_rate: counts one more HTTP request of this address, or of this user, whose it is
 * once the token was seen: the address gets it back. False: one too many, which is counted as such.
 */
bool gate_admits_request(struct gate *gate, struct lws *wsi);
bool gate_admits_request_of(struct gate *gate, struct lws *wsi, const char *user);
/* The token of an upgraded connection was good: its address gets the upgrade back. */
void gate_upgrade_was_good(struct gate *gate, const struct gate_peer *peer);
#define GATE_TOO_FAST "request_rate is reached"
/* Connections in GATE_CONN_WAITING: the first to go when max_connections is reached. */
void gate_waiting_enter(struct gate_conn *conn);
void gate_waiting_leave(struct gate_conn *conn); /* accepts one that has left */
#define GATE_SOON "Retry-After: 1"

/* ticket.c */
bool gate_ticket_new(char ret_ticket[STORE_TICKET_TEXT + 1]);
/* RC_OK: the token may be taken by zeroing it. RC_IO: the store failed. Else it is no ticket. */
typedef void gate_redeemed(void *owner, enum rc rc, struct token *token, const char *error);
/* NULL when the store is away; else `done` is called once, unless it is forgotten. */
struct gate_redeem *gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done,
                                       void *owner);
void gate_ticket_forget(struct gate_redeem *redeem);

/* conn.c: a WebSocket's life; what lws gets back from its callbacks. */
int gate_ws_established(struct gate *gate, struct lws *wsi, struct gate_conn **slot);
void gate_ws_received(struct gate_conn *conn, const struct ws_event *event);
int gate_ws_writable(struct gate_conn *conn);
void gate_ws_closed(struct gate_conn *conn);

/* The one door of a connection's state. */
void gate_conn_set_state(struct gate_conn *conn, enum gate_conn_state state);
/* All deaths pass here: says bye, then closes. Later calls change nothing. */
void gate_conn_close(struct gate_conn *conn, int code, const char *reason);
/* As above, telling the client to come back after in_ms. */
void gate_conn_close_for(struct gate_conn *conn, int code, const char *reason, int64_t in_ms);
/* The client said goodbye: the same to it, without a bye. */
void gate_conn_answer_close(struct gate_conn *conn, int code);
/* The socket takes nothing and will not hear a bye. */
void gate_conn_kill(struct gate_conn *conn);
/* Queues a control frame (WS_PONG, WS_CLOSE): it goes before all lines. len <= WS_CONTROL_MAX. */
void gate_conn_control(struct gate_conn *conn, enum ws_event_kind kind,
                       const unsigned char *payload, size_t len);
/* Queues a line of the gate's own: it goes before what the session has. */
void gate_conn_say(struct gate_conn *conn, const char *line, size_t len);
/* Ends its session. From the loop, never from within the hub: it may be walking its sessions. */
void gate_conn_detach(struct gate_conn *conn);
const struct session_transport *gate_transport(const struct gate_conn *conn);

/* send.c: a session's frames, to the socket at once where that is possible. */
MUST_CHECK enum rc gate_send(void *socket, const struct iovec *pieces, int count,
                             size_t *ret_taken);
MUST_CHECK enum rc gate_send_file(void *socket, const struct iovec *piece, int file,
                                  size_t *ret_taken);
/* Bytes of the frame that `sent` ends in which are still to be sent; *ret_rest begins there. */
size_t gate_send_rest(const struct iovec *pieces, int count, size_t sent,
                      const unsigned char **ret_rest);

/* read.c: hands on what a socket received, until the connection is freed. */
void gate_read_init(struct gate *gate);
void gate_read_end(struct gate *gate);
void gate_read_start(struct gate_conn *conn);
void gate_read_stop(struct gate_conn *conn);
/* All was written, the close frame last: the client's own end of it is awaited. */
void gate_read_linger(struct gate_conn *conn);
/* As read(2), also through TLS: EAGAIN for all that only takes time. */
ssize_t gate_read_some(struct lws *wsi, unsigned char *bytes, size_t len);

/* message.c: what a line of a client does. */
void gate_message_handle(struct gate_conn *conn, const char *line, size_t len);
/* The connection is gone, and what it waited for. */
void gate_message_forget(struct gate_conn *conn);
/* A token's groups as a session wants them; views of the token. The caller frees. */
struct session_group *gate_groups_of(const struct token *token);

/* tls.c: before the first connection; nothing without a certificate. */
MUST_CHECK enum rc gate_tls_set_ciphers(struct gate *gate, char *reason, size_t size);
/* Shows and logs until when the certificate is good; nothing without one. */
void gate_note_certificate(struct gate *gate);
/* Why SSL_read, SSL_peek or SSL_write gave `result`: EAGAIN for what only takes time, or EIO. */
int gate_tls_errno(const SSL *ssl, int result);
/*
 * Ends our side of the connection, also of TLS: closed with unread bytes it would be a reset, which
 * may take with it what was said last. False: the socket is broken.
 */
MUST_CHECK bool gate_say_no_more(struct lws *wsi);

/*
 * memory.c: lws's tables of headers get memory of their own. Behind lws_create_context, whose
 * large tables stay.
 */
void gate_memory_init(void);
/* After a crowd came or went, what it no longer needs goes back to the system. */
void gate_memory_sweep(struct gate *gate);

/* sweep.c: one timer for all connections. */
void gate_timers_start(struct gate *gate);
void gate_timers_stop(struct gate *gate);
void gate_timers_hurry(struct gate *gate); /* while draining */
/*
 * Of a token that is taken now: it is told of delivery.expiring before its end, but of a short one
 * after four fifths, else each new one would be asked for at once.
 */
void gate_expiry_begin(struct gate_expiry *expiry, const struct config *config, int64_t expires_s);
#define GATE_EXPIRING_MAX 64
/* Bytes of the line that tells of it, where that is to be said now; 0: nothing; -1: it is over. */
int gate_expiry_check(struct gate_expiry *expiry, const struct config *config, int64_t wall_us,
                      char ret_line[GATE_EXPIRING_MAX]);

#endif
