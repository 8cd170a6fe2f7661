/*
 * send.c: sends a session's frames, directly to the socket if possible.
 *
 * Frames bypass lws (lws_workarounds.h) while lws has no pending write. lws buffers the unsent part
 * of a frame and sends it first, so that no pong can split the frame.
 */
#include "gate/ws/send.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "hub/session/session.h"
#include "wire/ws_frame.h"

size_t
gate_send_rest(const struct iovec *pieces, int count, size_t sent, const unsigned char **ret_rest)
{
    for (int i = 0; i < count; i++) {
        const unsigned char *at = pieces[i].iov_base;
        const unsigned char *end = at + pieces[i].iov_len;

        if (sent >= pieces[i].iov_len) {
            sent -= pieces[i].iov_len;
            continue;
        }
        while (at < end) {
            size_t len = ws_frame_len(at);

            if (sent < len) {
                *ret_rest = at + sent;
                return sent > 0 ? len - sent : 0;
            }
            sent -= len;
            at += len;
        }
    }
    return 0;
}

static enum rc
wait_until_writable(struct gate_conn *conn)
{
    conn->must_wait_for_lws = true;
    conn_io_want_writable(&conn->io);
    return RC_AGAIN;
}

/* lws buffers a part that the socket does not accept. */
static enum rc
write_by_lws(struct gate_conn *conn, const unsigned char *bytes, size_t len)
{
    if (conn_io_write_raw(&conn->io, bytes, len) != RC_OK) {
        gate_conn_kill(conn);
        return RC_CLOSED;
    }
    return RC_OK;
}

/*
 * A TLS record must be written completely. So this function writes only within the lws callback,
 * and while lws buffers nothing.
 */
static enum rc
send_tls(struct gate_conn *conn, const struct iovec *pieces, int count, size_t *ret_written)
{
    size_t written = 0;

    for (int i = 0; i < count && conn->in_writable_callback && !conn_io_is_backlogged(&conn->io);
         i++) {
        if (write_by_lws(conn, pieces[i].iov_base, pieces[i].iov_len) != RC_OK)
            return RC_CLOSED;
        written += pieces[i].iov_len;
        *ret_written = written;
    }
    return count > 0 && written > 0 && !conn_io_is_backlogged(&conn->io)
               ? RC_OK
               : wait_until_writable(conn);
}

static enum rc
send_plain(struct gate_conn *conn, const struct iovec *pieces, int count, int file,
           size_t *ret_written)
{
    const unsigned char *rest = NULL;
    size_t len = 0;
    size_t rest_len;
    ssize_t sent = conn_io_send_pieces(&conn->io, pieces, count, file);

    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOBUFS) {
        log_debug("gate", "could not send to the client", LOG_TEXT("error", strerror(errno)),
                  LOG_CONN(conn));
        gate_conn_kill(conn);
        return RC_CLOSED;
    }
    if (sent < 0)
        return wait_until_writable(conn);
    for (int i = 0; i < count; i++)
        len += pieces[i].iov_len;
    *ret_written = (size_t)sent;
    if ((size_t)sent == len)
        return RC_OK;
    rest_len = gate_send_rest(pieces, count, (size_t)sent, &rest);
    *ret_written += rest_len;
    if (rest_len > 0 && write_by_lws(conn, rest, rest_len) != RC_OK)
        return RC_CLOSED;
    return wait_until_writable(conn);
}

static enum rc
send_by(struct gate_conn *conn, const struct iovec *pieces, int count, int file,
        size_t *ret_written)
{
    if (conn->state != GATE_CONN_OPEN)
        return RC_CLOSED;
    if (conn->must_wait_for_lws)
        return wait_until_writable(conn);
    if (conn_io_is_tls(&conn->io))
        return send_tls(conn, pieces, count, ret_written);
    return send_plain(conn, pieces, count, file, ret_written);
}

static enum rc
on_send(void *socket, const struct iovec *pieces, int count, size_t *ret_written)
{
    return send_by(socket, pieces, count, -1, ret_written);
}

static enum rc
on_send_file(void *socket, const struct iovec *piece, int file, size_t *ret_written)
{
    return send_by(socket, piece, 1, file, ret_written);
}

static void
on_close(void *socket, int code, const char *reason, int64_t in_ms)
{
    gate_conn_close_retry(socket, code, reason, in_ms);
}

static const struct session_transport PLAIN = {
    .send = on_send,
    .send_file = on_send_file,
    .close = on_close,
};

static const struct session_transport TLS = {
    .send = on_send,
    .close = on_close,
};

const struct session_transport *
gate_transport(const struct gate_conn *conn)
{
    return conn_io_is_tls(&conn->io) ? &TLS : &PLAIN;
}
