/*
 * send.c: sends a session's frames, directly to the socket.
 *
 * The connection keeps the unsent part of a frame, by
 * reference, and sends it before anything else (websocket_writable), so that no pong can split the
 * frame.
 */
#include "gate/ws/send.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "hub/session.h"
#include "wire/ws_frame.h"

/*
 * Returns the bytes of the frame at `offset` of a piece that are in this piece; *ret_after: those
 * in the next piece.
 */
static size_t
frame_part(const struct iovec *piece, size_t offset, size_t *ret_after)
{
    size_t len = ws_frame_len((const unsigned char *)piece->iov_base + offset);
    size_t left = piece->iov_len - offset;

    *ret_after = len > left ? len - left : 0;
    return len - *ret_after;
}

/* Keeps the piece from an offset to an end. */
static size_t
keep(struct out *out, const struct session_pieces *pieces, int i, size_t from, size_t to)
{
    if (from >= to)
        return 0;
    out_add_shared(out, (const unsigned char *)pieces->at[i].iov_base + from, to - from,
                   pieces->owners[i]);
    return to - from;
}

size_t
gate_send_rest(struct out *out, const struct session_pieces *pieces, size_t sent)
{
    for (int i = 0; i < pieces->count; i++) {
        size_t offset = 0;

        while (offset < pieces->at[i].iov_len) {
            size_t after;
            size_t len = frame_part(&pieces->at[i], offset, &after);
            size_t kept;

            if (sent == 0)
                return 0; /* no frame is partly written */
            if (sent >= len + after) {
                sent -= len + after;
                offset += len;
                i += after > 0;
                if (after > 0)
                    break;
                continue;
            }
            kept = keep(out, pieces, i, offset + (sent < len ? sent : len), offset + len);
            if (after > 0)
                kept += keep(out, pieces, i + 1, sent > len ? sent - len : 0, after);
            return kept;
        }
    }
    return 0;
}

static enum rc
wait_until_writable(struct websocket *ws)
{
    ws->must_wait = true;
    conn_want_writable(ws->conn);
    return RC_AGAIN;
}

static enum rc
socket_failed(struct websocket *ws)
{
    log_debug("gate", "could not send to the client", LOG_TEXT("error", strerror(errno)),
              LOG_CONN(ws));
    websocket_kill(ws);
    return RC_CLOSED;
}

/*
 * A TLS record must be written completely, with the same bytes in each attempt. So each frame is
 * kept first, and then written from there.
 */
static enum rc
send_tls(struct websocket *ws, const struct session_pieces *pieces, size_t *ret_written)
{
    enum rc rc = RC_OK;

    for (int i = 0; i < pieces->count && rc == RC_OK; i++) {
        size_t offset = 0, after = 0;

        while (offset < pieces->at[i].iov_len)
            offset += frame_part(&pieces->at[i], offset, &after);
        *ret_written += keep(&ws->unsent, pieces, i, 0, pieces->at[i].iov_len);
        if (after > 0) {
            i++;
            *ret_written += keep(&ws->unsent, pieces, i, 0, pieces->at[i].iov_len);
        }
        rc = out_write(&ws->unsent, ws->conn, GATE_TURN_BYTES);
    }
    if (rc == RC_IO)
        return socket_failed(ws);
    return rc == RC_OK ? RC_OK : wait_until_writable(ws);
}

static enum rc
send_plain(struct websocket *ws, const struct session_pieces *pieces, size_t *ret_written)
{
    size_t len = 0;
    ssize_t sent = conn_send_pieces(ws->conn, pieces->at, pieces->count, pieces->file);

    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOBUFS)
        return socket_failed(ws);
    if (sent < 0)
        return wait_until_writable(ws);
    for (int i = 0; i < pieces->count; i++)
        len += pieces->at[i].iov_len;
    *ret_written = (size_t)sent;
    if ((size_t)sent == len)
        return RC_OK;
    *ret_written += gate_send_rest(&ws->unsent, pieces, (size_t)sent);
    return wait_until_writable(ws);
}

static enum rc
on_send(void *socket, const struct session_pieces *pieces, size_t *ret_written)
{
    struct websocket *ws = socket;

    if (ws->state != WEBSOCKET_OPEN)
        return RC_CLOSED;
    if (ws->must_wait)
        return wait_until_writable(ws);
    if (ws->conn->ssl != NULL)
        return send_tls(ws, pieces, ret_written);
    return send_plain(ws, pieces, ret_written);
}

static void
on_close(void *socket, int code, const char *reason, int64_t in_ms)
{
    websocket_close_retry(socket, code, reason, in_ms);
}

static const struct session_transport PLAIN = {
    .uses_files = true,
    .send = on_send,
    .close = on_close,
};

static const struct session_transport TLS = {
    .send = on_send,
    .close = on_close,
};

const struct session_transport *
gate_transport(const struct websocket *ws)
{
    return ws->conn->ssl != NULL ? &TLS : &PLAIN;
}
