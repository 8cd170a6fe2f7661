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
#include "gate/net/conn.h"
#include "gate/net/out.h"
#include "hub/session.h"
#include "wire/ws_frame.h"

#define WEBSOCKET_OUT_MAX (64 * 1024) /* maximum bytes of unsent control messages */
#define WEBSOCKET_CONTROL_MAX (16 * 1024)

struct client_message;
struct gate;
struct gate_redeem;

/*
 * The states of a WebSocket. Only websocket_set_state changes the state. In any state, the client
 * may close the connection, which frees the WebSocket.
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
 * close. websocket_kill is also allowed in this state. Next: CLOSED.
 */
enum websocket_state { WEBSOCKET_WAITING, WEBSOCKET_OPEN, WEBSOCKET_CLOSING, WEBSOCKET_CLOSED };

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
    struct websocket *next_paused; /* link of conns->paused */
    bool is_paused;
};

/* One WebSocket, the owner of its connection. Times are monotonic, in microseconds. */
struct websocket {
    /* Fields that each send reads are adjacent. */
    enum websocket_state state;
    bool must_wait; /* on_writable is pending: writes must not overtake it */
    struct gate *gate;
    struct conn *conn;
    struct websocket *prev; /* link of conns->first */
    struct websocket *next;
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
#define LOG_CONN(ws)                                                                               \
    LOG_TEXT("conn", (ws)->user != NULL ? (ws)->conn_id : NULL), LOG_TEXT("user", (ws)->user)

/* All WebSockets of the gate. */
struct websockets {
    struct websocket *first;
    struct websocket *paused; /* connections whose reading is paused */
    struct ev_timer resume_timer;
};

/* The only way to change the state. Ends the connection on a transition that is not listed. */
void websocket_set_state(struct websocket *ws, enum websocket_state state);
/* Sends bye and closes. No effect if the connection is already closing. */
void websocket_close(struct websocket *ws, int code, const char *reason);
/* Like websocket_close, with a reconnect delay for the client. */
void websocket_close_retry(struct websocket *ws, int code, const char *reason, int64_t in_ms);
/* Replies to the client's close frame, without a bye. */
void websocket_reply_close(struct websocket *ws, int code);
/* Closes the socket without a bye, such as a socket that accepts no bytes. */
void websocket_kill(struct websocket *ws);
/* Queues a control frame (WS_PONG, WS_CLOSE) before all messages. len <= WS_CONTROL_MAX. */
void websocket_control(struct websocket *ws, enum ws_event_kind kind, const unsigned char *payload,
                       size_t len);
/* Queues a control message before the session's frames. */
void websocket_send(struct websocket *ws, const char *line, size_t len);
/*
 * Detaches the session. Call it from the loop, never from the hub, which may be iterating its
 * sessions.
 */
void websocket_detach(struct websocket *ws);
/* Writes queued frames, then the session's frames; bye and close frame last. */
void websocket_writable(struct websocket *ws);

#endif
