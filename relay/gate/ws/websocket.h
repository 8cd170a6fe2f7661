/* websocket.h: WebSockets. */
#ifndef CLAIRON_GATE_WS_WEBSOCKET_H
#define CLAIRON_GATE_WS_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "base/memory.h"
#include "base/rates.h"
#include "wire/codes.h"
#include "gate/net/client_limits.h"
#include "gate/http/auth.h"
#include "gate/net/conn.h"
#include "hub/hub.h"
#include "wire/ws_frame.h"

#define WEBSOCKET_OUT_MAX (64 * 1024) /* maximum bytes of unsent control messages */
#define WEBSOCKET_CONTROL_MAX (16 * 1024)

struct client_message;
struct gate;
struct gate_redeem;
struct response;

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
enum __attribute__((packed)) websocket_state {
    WEBSOCKET_WAITING,
    WEBSOCKET_OPEN,
    WEBSOCKET_CLOSING,
    WEBSOCKET_CLOSED
};

/*
 * An idle client has a WebSocket, and none of the objects below: they exist while there is
 * something to verify, to pause, to reassemble, to write or to close.
 */

/* While a token is verified: until OPEN, and during a "refresh". */
struct websocket_auth {
    char *bearer; /* token of the upgrade request, kept until "connect" */
    char *ticket; /* ticket of the upgrade request */
    struct gate_redeem *redeem;
    /* the "connect" or "refresh" message while its ticket is redeemed, or its key is fetched */
    struct client_message *connect;
    struct waiting_client waiting; /* waiting for "connect" */
};

/* A client that exceeded its rate, until the end of its connection (receive.c). */
struct websocket_flood {
    struct websocket *ws;
    /* until this time, messages without a reply cause no further rate `err` */
    int64_t rate_warned_until_us;
    int64_t paused_us;            /* last time that reading was paused */
    int64_t since_us;             /* start of the current series of pauses */
    struct websocket_flood *prev; /* link of websockets->paused; NULL: reading is not paused */
    struct websocket_flood *next;
};

/* Fragments of an incomplete message. */
struct websocket_fragments {
    struct buffer bytes;
    size_t valid_len; /* length of its valid UTF-8 prefix */
};

/* What must be written before a frame of the session. */
struct websocket_output {
    int64_t since_us;       /* start of the wait for the socket; 0: the session counts it */
    struct out unsent;      /* the rest of a partly written frame; nothing is written before it */
    struct buffer messages; /* control messages */
    struct buffer control;  /* control frames including their headers */
};

/* Since the start of the close. */
struct websocket_bye {
    char *reason; /* NULL: the client closed */
    int code;
    bool is_sent;       /* the close frame was queued */
    int unacked;        /* unacknowledged bytes in the socket */
    int64_t drained_us; /* time of the last change of `unacked` */
    char *user;         /* of the session, when it is detached; NULL: none */
    char conn_id[SESSION_CONN_SIZE];
};

/* One WebSocket, the owner of its connection. Times are monotonic, in microseconds. */
struct websocket {
    /* Fields that each send reads are adjacent. */
    enum websocket_state state;
    bool must_wait : 1;   /* on_writable is pending: writes must not overtake it */
    bool is_pinged : 1;   /* a ping is outstanding */
    bool was_evicted : 1; /* while it waited for "connect" */
    struct conn *conn;
    /* set while OPEN, and while CLOSING until the bye is written */
    struct session *session;
    struct websocket_output *output;
    struct websocket_auth *auth;
    struct websocket_fragments *in;
    struct websocket_flood *flood;
    struct websocket_bye *bye;
    struct gate_peer *peer;
    struct rate_bucket lines;
    int64_t budget_until_us; /* the inbound budget is used up until this time */
    struct gate_expiry expiry;
    uint64_t groups_hash;
    struct cutoff_marks marks; /* of its token */
    union {
        int64_t state_since_us; /* except in OPEN */
        int64_t ping_us;        /* in OPEN: when the ping was sent, or is due */
    };
    struct ws_reader reader;
};

/* The log fields that identify a connection; none until its token is verified. */
#define LOG_CONN(ws) LOG_TEXT("conn", websocket_conn(ws)), LOG_TEXT("user", websocket_user(ws))

/* All WebSockets of the gate. */
struct websockets {
    struct websocket_flood *paused; /* connections whose reading is paused */
    struct ev_timer resume_timer;
};

/* ---- websocket.c: one WebSocket */

#define GATE_BURST_US INT64_C(1000000) /* burst that a client may send above its rate */

void gate_ws_open(struct gate *gate);
void gate_ws_close(struct gate *gate); /* after conns_close */
void gate_ws_sweep(struct gate *gate, int64_t now_us, int64_t wall_us);
/* Closes a connection that has not sent "connect". */
void gate_ws_evict(void *owner);

/* The upgrade of conn->head was accepted. */
void gate_ws_begin(struct conn *conn, const struct conn_events *events);
/* Callbacks of conn_events. Writes queued frames, then those of the session; bye and close last. */
void websocket_writable(struct conn *conn);
void websocket_closed(struct conn *conn);
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
/* The gate of a WebSocket. */
static inline struct gate *
websocket_gate(const struct websocket *ws)
{
    return ws->conn->gate;
}
/* Returns the number of bytes of unsent control frames. */
size_t websocket_control_len(const struct websocket *ws);
/* Queues a control frame (WS_PONG, WS_CLOSE) before all messages. len <= WS_CONTROL_MAX. */
void websocket_control(struct websocket *ws, enum ws_event_kind kind, const unsigned char *payload,
                       size_t len);
/* Queues a control message before the session's frames. */
void websocket_send(struct websocket *ws, const char *line, size_t len);
/* Pauses reading until the client is less than GATE_BURST_US above its rate. */
void websocket_pause_reading(struct websocket *ws);
/* Frees credentials and a saved message, and cancels the redemption of its ticket. */
void websocket_end_auth(struct websocket *ws);
/* Returns the object of a client that exceeded its rate. */
struct websocket_flood *websocket_flood(struct websocket *ws);
/* Return NULL until the token is verified. */
const char *websocket_user(const struct websocket *ws);
const char *websocket_conn(const struct websocket *ws);

/* The functions with which a session sends. */
const struct session_transport *gate_transport(const struct websocket *ws);
/* Keeps the unsent bytes of the frame in which `sent` ends. Returns their number. */
size_t gate_send_rest(struct out *out, const struct session_pieces *pieces, size_t sent);

/* ---- receive.c: what arrives */

/* conn becomes a WebSocket, or receives a response. Call it while conn->head is set. */
void gate_ws_upgrade(struct conn *conn);
/* Builds the response to a request for /v1/ws without an upgrade. */
void gate_ws_upgrade_required(struct conn *conn, struct response *ret_response);

#endif
