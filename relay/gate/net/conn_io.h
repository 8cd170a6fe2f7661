/*
 * conn_io.h: one client's socket, plain or TLS: read, written and half-closed in the same way, past
 * libwebsockets, which only owns it.
 */
#ifndef CLAIRON_GATE_NET_CONN_IO_H
#define CLAIRON_GATE_NET_CONN_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/rc.h"

struct lws;
struct ssl_st;

/* Bytes in front of what conn_io_write_text writes: libwebsockets puts the frame's header there. */
#define CONN_IO_HEADROOM 16

struct conn_io {
    struct lws *wsi;
    struct ssl_st *ssl; /* NULL: plain */
    int fd;
};

struct conn_io conn_io_of(struct lws *wsi);
/* The client's address. False: it has none. */
bool conn_io_address(const struct conn_io *io, char *address, size_t size);

/* As recv(2) and send(2), also through TLS: EAGAIN for all that only takes time. */
ssize_t conn_io_read(const struct conn_io *io, void *bytes, size_t len);
ssize_t conn_io_write(const struct conn_io *io, const void *bytes, size_t len);
/* Likewise, without taking the bytes off; through TLS those of one record. */
ssize_t conn_io_peek(const struct conn_io *io, void *bytes, size_t len);
/* OpenSSL has read bytes that poll(2) does not see any more. */
bool conn_io_has_buffered(const struct conn_io *io);
bool conn_io_is_handshaken(const struct conn_io *io); /* of TLS */

/*
 * A plain socket only: whole pieces in one call; of one piece that `file` holds from its beginning,
 * without copying it (file -1: there is none). As sendmsg(2).
 */
ssize_t conn_io_send_pieces(const struct conn_io *io, const struct iovec *pieces, int count,
                            int file);

/*
 * Ends our side of the connection, also of TLS: closed with unread bytes it would be a reset, which
 * may destroy what was sent last. False: the socket is broken.
 */
MUST_CHECK bool conn_io_half_close(const struct conn_io *io);
/* Closes it now: what owns it is gone after this. Not from within a callback of libwebsockets. */
void conn_io_close(const struct conn_io *io);

/*
 * Writes through libwebsockets, which keeps what the socket does not accept and sends that before
 * all else. The text is one WebSocket frame, behind CONN_IO_HEADROOM bytes. RC_IO: it is broken.
 */
MUST_CHECK enum rc conn_io_write_text(const struct conn_io *io, unsigned char *text, size_t len);
MUST_CHECK enum rc conn_io_write_raw(const struct conn_io *io, const unsigned char *bytes,
                                     size_t len);
/* Does libwebsockets still hold bytes that were written so? */
bool conn_io_is_backlogged(const struct conn_io *io);
/* on_writable of server.h follows once the socket accepts bytes. */
void conn_io_want_writable(const struct conn_io *io);

#endif
