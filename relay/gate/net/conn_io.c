/* conn_io.c: reads, writes and closes a client's socket. */
#include "gate/net/conn_io.h"

#include <errno.h>
#include <libwebsockets.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD_BYTES (16 * 1024) /* maximum TLS record */

struct conn_io
conn_io_of(struct lws *wsi)
{
    return (struct conn_io){.wsi = wsi, .ssl = lws_get_ssl(wsi), .fd = lws_get_socket_fd(wsi)};
}

struct conn_io
conn_io_of_fd(int fd)
{
    return (struct conn_io){.fd = fd};
}

bool
conn_io_is_tls(const struct conn_io *io)
{
    return io->ssl != NULL;
}

bool
conn_io_address(const struct conn_io *io, char *address, size_t size)
{
    return lws_get_peer_simple(io->wsi, address, size) != NULL;
}

/* Sets errno to EAGAIN if OpenSSL must wait for the socket. */
static ssize_t
tls_failed(const struct conn_io *io, int result)
{
    int error = SSL_get_error(io->ssl, result);

    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return -1;
}

ssize_t
conn_io_read(const struct conn_io *io, void *bytes, size_t len)
{
    int got;

    if (io->ssl == NULL)
        return recv(io->fd, bytes, len, 0);
    ERR_clear_error();
    got = SSL_read(io->ssl, bytes, (int)len);
    if (got > 0)
        return got;
    return SSL_get_error(io->ssl, got) == SSL_ERROR_ZERO_RETURN ? 0 : tls_failed(io, got);
}

ssize_t
conn_io_peek(const struct conn_io *io, void *bytes, size_t len)
{
    int got;

    if (io->ssl == NULL)
        return recv(io->fd, bytes, len, MSG_PEEK);
    ERR_clear_error();
    got = SSL_peek(io->ssl, bytes, (int)len);
    return got > 0 ? got : tls_failed(io, got);
}

ssize_t
conn_io_discard(const struct conn_io *io, void *bytes, size_t len)
{
    return recv(io->fd, bytes, len, 0);
}

ssize_t
conn_io_write(const struct conn_io *io, const void *bytes, size_t len)
{
    int sent;

    if (io->ssl == NULL)
        return send(io->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    ERR_clear_error();
    sent = SSL_write(io->ssl, bytes, (int)(len < RECORD_BYTES ? len : RECORD_BYTES));
    return sent > 0 ? sent : tls_failed(io, sent);
}

bool
conn_io_has_buffered(const struct conn_io *io)
{
    return io->ssl != NULL && SSL_pending(io->ssl) > 0;
}

bool
conn_io_is_handshaken(const struct conn_io *io)
{
    return SSL_is_init_finished(io->ssl);
}

/* send(2) is the typical case, and cheaper than sendmsg(2). */
ssize_t
conn_io_send_pieces(const struct conn_io *io, const struct iovec *pieces, int count, int file)
{
    struct msghdr message;
    off_t at = 0;

    if (file >= 0) {
        ssize_t sent = sendfile(io->fd, file, &at, pieces[0].iov_len);

        if (sent >= 0 || errno == EAGAIN || errno == EINTR)
            return sent;
        /* fall back to send(2), which reports a socket error as well */
    }
    if (count == 1)
        return send(io->fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    message = (struct msghdr){.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    return sendmsg(io->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool
conn_io_half_close(const struct conn_io *io)
{
    if (io->ssl != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(io->ssl);
    }
    return shutdown(io->fd, SHUT_WR) == 0;
}

bool
conn_io_is_half_closed(const struct conn_io *io)
{
    struct pollfd one = {.fd = io->fd, .events = POLLRDHUP};

    return poll(&one, 1, 0) > 0;
}

void
conn_io_close(const struct conn_io *io)
{
    if (io->wsi == NULL)
        close(io->fd);
    else
        lws_set_timeout(io->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
}

bool
conn_io_set_low_water(const struct conn_io *io, size_t len)
{
    int mark = (int)len;

    return setsockopt(io->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)) == 0;
}

void
conn_io_set_ack_timeout(const struct conn_io *io, int64_t timeout_ms)
{
    unsigned ms = (unsigned)timeout_ms;

    (void)setsockopt(io->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

bool
conn_io_unacked_bytes(const struct conn_io *io, int *ret_bytes)
{
    int bytes = 0;

    if (ioctl(io->fd, SIOCOUTQ, &bytes) != 0)
        return false;
    *ret_bytes = bytes;
    return true;
}

/* libwebsockets does not modify bytes that it writes raw. */
enum rc
conn_io_write_raw(const struct conn_io *io, const unsigned char *bytes, size_t len)
{
    return lws_write(io->wsi, (unsigned char *)bytes, len, LWS_WRITE_RAW) < 0 ? RC_IO : RC_OK;
}

void
conn_io_want_writable(const struct conn_io *io)
{
    lws_callback_on_writable(io->wsi);
}
