/* conn.h: one WebSocket: its state, what it sends of its own, its close. */
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
#include "wire/ws_reader.h"

#define GATE_CONN_OUT_MAX (64 * 1024) /* own lines that the socket has not accepted yet */
#define GATE_CONN_CONTROL_MAX (16 * 1024)

struct client_message;
struct gate;
struct gate_redeem;
struct session;

/*
 * WAITING for the connect frame -> OPEN, with a session -> CLOSING, the bye and the close frame
 * are to be written -> CLOSED, nothing is written any more. Any state may go to a later one.
 */
enum gate_conn_state { GATE_CONN_WAITING, GATE_CONN_OPEN, GATE_CONN_CLOSING, GATE_CONN_CLOSED };

/* What only matters until the token is verified. */
struct gate_auth {
    char *bearer; /* token of the upgrade, until the connect frame */
    char *ticket; /* likewise */
    struct gate_redeem *redeem;
    struct client_message *connect; /* waits for the ticket */
};

/* What the client sent, against the rate that it may send at; receive.c. */
struct gate_inbound {
    struct rate_bucket lines;
    int64_t rate_warned_until_us;  /* of lines that nobody answers, that there are too many */
    int64_t budget_until_us;       /* frames and bytes that came, at the rate that is allowed */
    int64_t paused_us;             /* when reading was last paused */
    int64_t flood_since_us;        /* and since when again and again */
    struct gate_conn *next_paused; /* in conns->paused: reading is paused */
    bool is_paused;
};

/* Begins in ESTABLISHED, freed in CLOSED. Times are monotonic, in us. */
struct gate_conn {
    /* What each send looks at, together. */
    enum gate_conn_state state;
    bool in_turn;   /* within lws's callback for a writable socket */
    bool lws_first; /* a call of on_writable is under way: nothing goes past it */
    bool is_killed; /* lws ends the socket at its next turn */
    struct ev_io readable;
    struct gate *gate;
    struct conn_io io;
    struct gate_conn *prev; /* in conns->first */
    struct gate_conn *next;
    struct session *session; /* while OPEN, and CLOSING until the bye is written */
    char *log_context;       /* for the log: "gate", later "conn=.. user=.." */
    char *user;              /* NULL until the token was verified */
    struct gate_auth auth;
    struct waiting_client waiting; /* until "connect" */
    struct gate_inbound inbound;
    struct gate_expiry expiry;
    uint64_t groups_hash;
    bool close_sent;
    int close_code;
    int64_t state_since_us;
    int64_t ping_due_us;
    int64_t pinged_us;  /* 0: no ping is unanswered */
    int unsent;         /* bytes in the socket, while its end waits for the client to read them */
    int64_t drained_us; /* when that last changed */
    int64_t unwritable_us; /* since when we wait for the socket; 0: we do not */
    char *close_reason;    /* NULL while open */
    struct ws_reader reader;
    struct buffer in;      /* pieces of a message still coming */
    size_t in_valid;       /* bytes of it that are whole characters */
    struct buffer out;     /* own lines, behind CONN_IO_HEADROOM bytes */
    struct buffer control; /* control frames with their headers */
};

/* All WebSockets of the gate. */
struct gate_conns {
    struct gate_conn *first;
    struct gate_conn *paused; /* reading is paused */
    struct ev_timer resume_timer;
};

/* The one function that changes a connection's state. */
void gate_conn_set_state(struct gate_conn *conn, enum gate_conn_state state);
/* All closes pass here: sends bye, then closes. Later calls change nothing. */
void gate_conn_close(struct gate_conn *conn, int code, const char *reason);
/* As above; the client is asked to reconnect after in_ms. */
void gate_conn_close_retry(struct gate_conn *conn, int code, const char *reason, int64_t in_ms);
/* The client sent a close frame: the same to it, without a bye. */
void gate_conn_reply_close(struct gate_conn *conn, int code);
/* The socket accepts nothing: without a bye. */
void gate_conn_kill(struct gate_conn *conn);
/* Queues a control frame (WS_PONG, WS_CLOSE): it goes before all lines. len <= WS_CONTROL_MAX. */
void gate_conn_control(struct gate_conn *conn, enum ws_event_kind kind,
                       const unsigned char *payload, size_t len);
/* Queues a line of the gate's own: it goes before what the session has. */
void gate_conn_send(struct gate_conn *conn, const char *line, size_t len);
/* Ends its session. From the loop, never from within the hub: it may be walking its sessions. */
void gate_conn_detach(struct gate_conn *conn);
/* To lws: writes what is queued, the bye and the close frame last, then what the session has. */
int gate_conn_writable(void *owner);

#endif
