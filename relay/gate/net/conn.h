/*
 * conn.h: a client's connection, plain or TLS, from accept to close.
 *
 * libwebsockets owns the socket, does TLS handshakes, passes the bytes that arrive, and reports
 * when the socket is writable (carrier.c, the only file that includes it). Bytes to the client do
 * not pass through it: conn_write and conn_send_pieces use the socket, or OpenSSL. Everything above
 * this header works with struct conn. Outside relay/gate/net no file uses the socket directly;
 * tests/lint/banned.sh checks this.
 */
#ifndef CLAIRON_GATE_NET_CONN_H
#define CLAIRON_GATE_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <ev.h>

#include "base/memory.h"
#include "base/rc.h"

struct gate;
struct hello;
struct hello_source;
struct hellos;
struct http_head;
struct lws;

/*
 * The phases of a connection. Only conn_enter and conn_close change the phase. Each phase has a
 * list in the order of arrival, so that timeouts and evictions look only at the first connections
 * of a list. In any phase the client may close the connection, which frees it.
 *
 * HELLO (TLS only): waits for a complete ClientHello, which is peeked at, so that an incomplete one
 * costs no state in OpenSSL. libwebsockets does not own the socket yet. Next: QUEUED.
 *
 * QUEUED (TLS only): the ClientHello has arrived; waits for its turn. It has no timeout, because
 * the client waits for the gate: a turn comes when others leave HANDSHAKE and HEAD, which have one.
 * Next: HANDSHAKE.
 *
 * HANDSHAKE (TLS only): OpenSSL has the ClientHello; no byte of a request has arrived. Next: HEAD.
 *
 * HEAD: waits for a request head, of which a part may have arrived. After its timeout,
 * gate_heads_sweep (http1.c) responds with 408. Next: REQUEST, WEBSOCKET.
 *
 * REQUEST: a request is in progress (enum gate_request_state). Next: HEAD, KEPT, LINGERING.
 *
 * KEPT: waits for the next request. May be closed for other clients. Next: HEAD.
 *
 * WEBSOCKET: the connection was upgraded (enum websocket_state).
 *
 * LINGERING: the last response is written. Input is discarded: a close with unread bytes would send
 * a reset, which may destroy the response, and a gateway that cannot send its body drops the
 * response.
 *
 * CLOSING: closed later in this loop iteration.
 */
enum __attribute__((packed)) conn_phase {
    CONN_HELLO,
    CONN_QUEUED,
    CONN_HANDSHAKE,
    CONN_HEAD,
    CONN_REQUEST,
    CONN_KEPT,
    CONN_WEBSOCKET,
    CONN_LINGERING,
    CONN_CLOSING,
    CONN_PHASES
};

struct conn;

/* The callbacks of the module that handles a connection in its phase. None may free it. */
struct conn_events {
    /* The bytes are valid only during the call, and may be changed. */
    void (*on_bytes)(struct conn *conn, unsigned char *bytes, size_t len);
    void (*on_writable)(struct conn *conn);
    void (*on_closed)(struct conn *conn); /* frees the owner */
};

/* What a connection needs for HTTP. A WebSocket has none of it: most connections are idle ones. */
struct conn_http {
    struct hello *hello;         /* in HELLO and QUEUED */
    struct hello_source *source; /* from QUEUED to the first request */
    struct buffer in;            /* bytes that arrived before they could be handled */
    struct http_head *partial;   /* in HEAD: the parser's state, if a part of a head has arrived */
    struct conn *write_prev;     /* link of conns->writes, if is_writing */
    struct conn *write_next;
    int requests; /* requests that were answered */
};

struct conn {
    struct gate *gate;
    const struct conn_events *events; /* NULL until HANDSHAKE or HEAD */
    void *owner;                      /* the request or WebSocket of `events`; NULL: none yet */
    struct conn_http *http;           /* NULL in WEBSOCKET, and later */
    const struct http_head *head;     /* of the request that begins; NULL later */
    struct lws *wsi;                  /* carrier.c; NULL: libwebsockets does not own the socket */
    struct conn *prev;                /* link of the phase's list; oldest first */
    struct conn *next;
    int64_t since_us; /* monotonic; when the phase began */
    int fd;           /* non-blocking */
    enum conn_phase phase;
    bool is_tls : 1;     /* libwebsockets owns the socket, and encrypts */
    bool is_admin : 1;   /* accepted from gate.admin_listen */
    bool is_paused : 1;  /* nothing is read */
    bool has_spoken : 1; /* TLS: bytes have arrived since the handshake */
    bool is_writing : 1; /* see conn_write_soon */
    bool in_adopt : 1;   /* libwebsockets may close the socket before it returns */
};

/* All connections of the gate. */
struct conns {
    struct {
        struct conn *first; /* oldest first */
        int count;
    } in[CONN_PHASES];
    const struct conn_events *first_events;      /* for HANDSHAKE and HEAD */
    void (*on_socket_closed)(struct conn *conn); /* calls on_closed, and frees conn */
    struct hellos *hellos;                       /* TLS clients before their first request */
    struct ev_io reaper;                         /* closes the connections in CLOSING */
    struct conn *writes;                         /* connections that write in this loop iteration */
    struct ev_io writer;                         /* calls their on_writable ... */
    bool is_writing;                             /* ... now */
};

void conns_open(struct gate *gate, const struct conn_events *first_events);
void conns_close(struct gate *gate); /* closes all */
/* Closes connections that are too long in HELLO, HANDSHAKE, KEPT or LINGERING. */
void conns_sweep(struct gate *gate, int64_t now_us);
/*
 * Closes the oldest connection that has no request, or whose response was written. False: none. Not
 * from a callback of a connection.
 */
bool conns_evict_oldest(struct gate *gate);
/* Closes the oldest connection that waits for its next request. False: none. */
bool conns_evict_kept(struct gate *gate);

/* A connection was accepted. */
void conn_begin(struct gate *gate, int fd, bool is_admin);
/*
 * The only way to change the phase, except conn_close. A transition that is not listed above closes
 * the connection.
 */
void conn_enter(struct conn *conn, enum conn_phase phase, const struct conn_events *events,
                void *owner);
/* Closes the connection later in this loop iteration. May be called from anywhere, repeatedly. */
void conn_close(struct conn *conn);
/*
 * HTTP only. Calls on_writable later in this loop iteration, once, as if the socket accepted
 * bytes. Typically it does, and waiting until the system reports it costs four system calls.
 */
void conn_write_soon(struct conn *conn);
/* HTTP only. Keeps bytes for later. */
void conn_keep_bytes(struct conn *conn, const void *bytes, size_t len);
/* Whether it was accepted from a Unix socket. */
bool conn_is_unix(const struct conn *conn);

/* ---- carrier.c: sockets and libwebsockets */

/* Sets gate->carrier. On failure `reason` is the error. */
MUST_CHECK enum rc carrier_open(struct gate *gate, char *reason, size_t size);
void carrier_close(struct gate *gate); /* after conns_close; accepts a gate without a carrier */
/* Returns the TLS context; NULL without a certificate. */
struct ssl_ctx_st *carrier_tls(const struct gate *gate);

/* Passes the socket to libwebsockets. False: it rejected and closed it; the caller frees conn. */
bool conn_adopt(struct conn *conn);
/* Closes the socket. Returns whether conns->on_socket_closed was called. */
bool conn_close_socket(struct conn *conn);

/*
 * Nothing is read while paused, so an end of input is not seen either: libwebsockets closes a
 * connection as soon as it reads its end, although a client may half-close (shutdown(2)) and wait
 * for its response.
 */
void conn_pause(struct conn *conn);
void conn_resume(struct conn *conn);
/* Requests a call of on_writable when the socket accepts bytes. */
void conn_want_writable(struct conn *conn);

/* Like send(2), plain or over TLS. errno is EAGAIN if OpenSSL must wait. */
ssize_t conn_write(struct conn *conn, const void *bytes, size_t len);
/*
 * Plain sockets only. Sends whole pieces in one call, like sendmsg(2). If `file` contains the first
 * piece from offset 0, sends it without copying; -1: no file.
 */
ssize_t conn_send_pieces(struct conn *conn, const struct iovec *pieces, int count, int file);
/* Shuts down the write side, including TLS. False: the socket failed. */
MUST_CHECK bool conn_half_close(struct conn *conn);
/* Whether the client half-closed or reset the connection. Never blocks. */
bool conn_is_half_closed(const struct conn *conn);
/* Whether bytes of the client were not read. */
bool conn_has_unread(const struct conn *conn);
/* Writes the peer's address. False: unknown, or a Unix socket. */
bool conn_address(const struct conn *conn, char *address, size_t size);
/*
 * Limits the time that TCP waits for the client to acknowledge bytes; the system's default is about
 * 15 minutes. No effect on a Unix socket.
 */
void conn_set_ack_timeout(const struct conn *conn, int64_t timeout_ms);
/* Reads the number of written bytes that the client's host has not acknowledged. False: unknown. */
bool conn_unacked_bytes(const struct conn *conn, int *ret_bytes);

/*
 * ---- out.c: the bytes that a socket has not accepted yet: copies of short ones, and references to
 * long parts of shared blocks.
 *
 * All bytes of a WebSocket, an event stream or a response go through one such queue once the socket
 * is full, so that nothing is written between the parts of a frame or of a TLS record. A long
 * notification that waits for many sockets is in memory once.
 */

/* Maximum bytes written to one socket per loop iteration, for fairness. */
#define GATE_TURN_BYTES (4u * 1024 * 1024)

struct out_part {
    struct out_part *next;
    struct shared *owner; /* NULL: a copy */
    struct buffer copy;
    const unsigned char *at; /* the unwritten bytes */
    size_t len;
};

/* Initially zeroed, except for `waiting_bytes`. */
struct out {
    struct out_part *first;
    struct out_part *last;
    size_t len;            /* unwritten bytes */
    size_t *waiting_bytes; /* see shared_wait; NULL: no shared block is added */
};

/* Copies the bytes. */
void out_add(struct out *out, const void *bytes, size_t len);
/* Refers to the bytes if they are long; owner NULL: always copies them. */
void out_add_shared(struct out *out, const void *bytes, size_t len, struct shared *owner);
/* Takes ownership of the buffer's bytes. */
void out_add_buffer(struct out *out, struct buffer *bytes);
/* Moves all parts of `from` to the end of `out`. */
void out_move(struct out *out, struct out *from);
/*
 * Writes up to `max` bytes. RC_OK: all are written. RC_AGAIN: the socket is full, or `max` was
 * reached. RC_IO: the socket failed.
 */
MUST_CHECK enum rc out_write(struct out *out, struct conn *conn, size_t max);
void out_free(struct out *out); /* also resets to empty */

#endif
