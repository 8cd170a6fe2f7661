/*
 * out.h: the bytes that a socket has not accepted yet: copies of short texts, and parts of shared
 * blocks, which are never copied.
 *
 * All bytes of a WebSocket, an event stream or a response go through one such queue once the socket
 * is full, so that nothing is written between the parts of a frame or of a TLS record. The memory
 * of a relay therefore does not grow with the number of sockets to which one notification is
 * written.
 */
#ifndef CLAIRON_GATE_NET_OUT_H
#define CLAIRON_GATE_NET_OUT_H

#include "base/buffer.h"
#include "base/shared.h"
#include "gate/net/conn.h"

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
