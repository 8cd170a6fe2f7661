/*
 * conn_io.h: reads, writes and closes a client's socket, plain or TLS. It bypasses libwebsockets,
 * which only owns the socket. Outside relay/gate/net no file uses the socket directly;
 * tests/lint/banned.sh checks this.
 */
#ifndef CLAIRON_GATE_NET_CONN_IO_H
#define CLAIRON_GATE_NET_CONN_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/rc.h"

struct lws;
struct ssl_st;

struct conn_io {
    struct lws *wsi;    /* NULL: libwebsockets does not own the socket yet */
    struct ssl_st *ssl; /* NULL: plain */
    int fd;             /* non-blocking */
};

struct conn_io conn_io_of(struct lws *wsi);
/* For an accepted socket before server_adopt: without TLS, and conn_io_close calls close(2). */
struct conn_io conn_io_of_fd(int fd);
bool conn_io_is_tls(const struct conn_io *io);
/* Writes the peer's address. False: unknown. */
bool conn_io_address(const struct conn_io *io, char *address, size_t size);

/* Like recv(2) and send(2), plain or over TLS. errno is EAGAIN if OpenSSL must wait. */
ssize_t conn_io_read(const struct conn_io *io, void *bytes, size_t len);
ssize_t conn_io_write(const struct conn_io *io, const void *bytes, size_t len);
/* Like recv with MSG_PEEK; over TLS at most one record. */
ssize_t conn_io_peek(const struct conn_io *io, void *bytes, size_t len);
/* Discards input after conn_io_half_close. Reads below TLS, because its session is closed. */
ssize_t conn_io_discard(const struct conn_io *io, void *bytes, size_t len);
/* Whether OpenSSL buffers bytes that poll(2) does not report. */
bool conn_io_has_buffered(const struct conn_io *io);
bool conn_io_is_handshaken(const struct conn_io *io); /* TLS only */

/*
 * Plain sockets only. Sends whole pieces in one call, like sendmsg(2). If `file` contains the first
 * piece from offset 0, sends it without copying; -1: no file.
 */
ssize_t conn_io_send_pieces(const struct conn_io *io, const struct iovec *pieces, int count,
                            int file);

/*
 * Shuts down the write side, including TLS. A close with unread bytes would send a reset, which may
 * destroy the last bytes sent. False: the socket failed.
 */
MUST_CHECK bool conn_io_half_close(const struct conn_io *io);
/* Whether the client half-closed or reset the connection. Never blocks. */
bool conn_io_is_half_closed(const struct conn_io *io);
/* Closes the socket and frees its owner immediately. Never call it from an lws callback. */
void conn_io_close(const struct conn_io *io);

/*
 * Makes poll(2) report the socket as readable only when it has `len` bytes; the system's default is
 * one. No effect on a Unix socket. False: not set.
 */
bool conn_io_set_low_water(const struct conn_io *io, size_t len);
/*
 * Limits the time that TCP waits for the client to acknowledge bytes; the system's default is about
 * 15 minutes. No effect on a Unix socket.
 */
void conn_io_set_ack_timeout(const struct conn_io *io, int64_t timeout_ms);
/* Reads the number of written bytes that the client's host has not acknowledged. False: unknown. */
bool conn_io_unacked_bytes(const struct conn_io *io, int *ret_bytes);

/*
 * Writes through libwebsockets, which buffers a copy of unsent bytes: only for short responses.
 * RC_IO: the socket failed.
 */
MUST_CHECK enum rc conn_io_write_raw(const struct conn_io *io, const unsigned char *bytes,
                                     size_t len);
/* Requests a call of on_writable (server.h) when the socket accepts bytes. */
void conn_io_want_writable(const struct conn_io *io);

#endif
