/* conn.h: the state of a WebSocket, its control messages and its close. */
#ifndef CLAIRON_GATE_WS_CONN_H
#define CLAIRON_GATE_WS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "base/buffer.h"
#include "base/rates.h"
#include "wire/codes.h"
#include "gate/net/limits.h"
#include "gate/http/token_expiry.h"
#include "gate/net/conn_io.h"
#include "gate/net/out.h"
#include "hub/session/session.h"
#include "wire/ws_frame.h"

#define GATE_CONN_OUT_MAX (64 * 1024) /* maximum bytes of unsent control messages */
#define GATE_CONN_CONTROL_MAX (16 * 1024)

struct client_message;
struct gate;
struct gate_redeem;

/*
 * The states of a WebSocket. Only gate_conn_set_state changes the state. In any state,
 * libwebsockets may close the socket, which frees the connection (gate_ws_closed).
 *
 * WAITING: waits for "connect" and the verification of its token. The connection has no session,
 * and may be evicted. Next: OPEN, CLOSING, CLOSED.
 *
 * OPEN: the connection has a session. Next: CLOSING, CLOSED.
 *
 * CLOSING: bye and close frame are queued or written. Input is discarded. The session is detached
 * at the next write, because the hub may be iterating its sessions. Next: CLOSED.
 *
 * CLOSED: nothing more is written. After the close frame, the connection waits for the client to
 * close. After gate_conn_kill, which is also allowed in this state, it waits for libwebsockets.
 * Next: CLOSED.
 */
enum gate_conn_state { GATE_CONN_WAITING, GATE_CONN_OPEN, GATE_CONN_CLOSING, GATE_CONN_CLOSED };

/* Credentials, until the token is verified. */
struct gate_auth {
    char *bearer; /* token of the upgrade request, kept until "connect" */
    char *ticket; /* ticket of the upgrade request */
    struct gate_redeem *redeem;
    struct client_message *connect; /* the "connect" message while the ticket is redeemed */
};

/* Inbound rate limit (receive.c, backpressure.c). */
struct gate_inbound {
    struct rate_bucket lines;
    /* until this time, messages without a reply cause no further rate `err` */
    int64_t rate_warned_until_us;
    int64_t budget_until_us;       /* the inbound budget is used up until this time */
    int64_t paused_us;             /* last time that reading was paused */
    int64_t flood_since_us;        /* start of the current series of pauses */
    struct gate_conn *next_paused; /* link of conns->paused */
    bool is_paused;
};

/*
 * One WebSocket. Created in LWS_CALLBACK_ESTABLISHED, freed in LWS_CALLBACK_CLOSED. Times are
 * monotonic, in microseconds.
 */
struct gate_conn {
    /* Fields that each send reads are adjacent. */
    enum gate_conn_state state;
    bool must_wait_for_lws; /* on_writable is pending: writes must not overtake it */
    bool is_killed;         /* lws closes the socket in the next iteration */
    struct ev_io readable;
    struct gate *gate;
    struct conn_io io;
    struct gate_conn *prev; /* link of conns->first */
    struct gate_conn *next;
    /* set while OPEN, and while CLOSING until the bye is written */
    struct session *session;
    char conn_id[SESSION_CONN_SIZE]; /* set with `user` */
    char *user;                      /* NULL until the token is verified */
    struct gate_auth auth;
    struct waiting_client waiting; /* waiting for "connect" */
    struct gate_inbound inbound;
    struct gate_expiry expiry;
    uint64_t groups_hash;
    bool close_sent;
    int close_code;
    int64_t state_since_us;
    int64_t ping_due_us;
    int64_t pinged_us;     /* 0: no ping is outstanding */
    int unacked;           /* unacknowledged bytes in the socket while closing */
    int64_t drained_us;    /* time of the last change of `unacked` */
    int64_t unwritable_us; /* start of the wait for a writable socket; 0: not waiting */
    char *close_reason;    /* NULL while open */
    struct ws_reader reader;
    struct buffer in;      /* fragments of an incomplete message */
    size_t in_valid;       /* length of its valid UTF-8 prefix */
    struct out unsent;     /* the rest of a partly written frame; nothing is written before it */
    struct buffer out;     /* control messages */
    struct buffer control; /* control frames including their headers */
};

/* The log fields that identify a connection; none until its token is verified. */
#define LOG_CONN(conn)                                                                             \
    LOG_TEXT("conn", (conn)->user != NULL ? (conn)->conn_id : NULL), LOG_TEXT("user", (conn)->user)

/* All WebSockets of the gate. */
struct gate_conns {
    struct gate_conn *first;
    struct gate_conn *paused; /* connections whose reading is paused */
    struct ev_timer resume_timer;
};

/* The only way to change the state. Aborts on a transition that is not listed above. */
void gate_conn_set_state(struct gate_conn *conn, enum gate_conn_state state);
/* Sends bye and closes. No effect if the connection is already closing. */
void gate_conn_close(struct gate_conn *conn, int code, const char *reason);
/* Like gate_conn_close, with a reconnect delay for the client. */
void gate_conn_close_retry(struct gate_conn *conn, int code, const char *reason, int64_t in_ms);
/* Replies to the client's close frame, without a bye. */
void gate_conn_reply_close(struct gate_conn *conn, int code);
/* Closes the socket without a bye, such as a socket that accepts no bytes. */
void gate_conn_kill(struct gate_conn *conn);
/* Queues a control frame (WS_PONG, WS_CLOSE) before all messages. len <= WS_CONTROL_MAX. */
void gate_conn_control(struct gate_conn *conn, enum ws_event_kind kind,
                       const unsigned char *payload, size_t len);
/* Queues a control message before the session's frames. */
void gate_conn_send(struct gate_conn *conn, const char *line, size_t len);
/*
 * Detaches the session. Call it from the loop, never from the hub, which may be iterating its
 * sessions.
 */
void gate_conn_detach(struct gate_conn *conn);
/*
 * Writes queued frames, then the session's frames; bye and close frame last. Returns the lws
 * callback result.
 */
int gate_conn_writable(void *owner);

#endif
