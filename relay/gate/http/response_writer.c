/*
 * response_writer.c: writes to the client of a plain HTTP request.
 *
 * Not through lws: it asks for the client's end and for room in one go, and would hang up on who
 * says no more; and it ends a socket without waiting for what is still on its way here, so that the
 * reset may take the answer with it.
 */
#include "gate/gate_request.h"

#include <errno.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"

#define RECORD_BYTES (16 * 1024)      /* of TLS */
#define TURN_BYTES (4 * 1024 * 1024L) /* of one connection, before it is others' turn */

/* As send(2). */
static ssize_t
write_tls(SSL *ssl, const char *bytes, size_t len)
{
    int sent;

    ERR_clear_error();
    sent = SSL_write(ssl, bytes, (int)(len < RECORD_BYTES ? len : RECORD_BYTES));
    if (sent > 0)
        return sent;
    errno = gate_tls_errno(ssl, sent);
    return -1;
}

static ssize_t
write_some(struct gate_request *request, const char *bytes, size_t len)
{
    SSL *ssl = lws_get_ssl(request->wsi);

    if (ssl != NULL)
        return write_tls(ssl, bytes, len);
    return send(request->writable.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* As much of `out` as the socket takes. False: it is broken. */
static bool
write_out(struct gate_request *request)
{
    size_t most = request->out_sent + TURN_BYTES;

    while (request->out_sent < request->out.len - LWS_PRE && request->out_sent < most) {
        const char *at = request->out.bytes + LWS_PRE + request->out_sent;
        ssize_t sent = write_some(request, at, request->out.len - LWS_PRE - request->out_sent);

        if (sent < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
        request->out_sent += (size_t)sent;
    }
    if (request->out_sent < request->out.len - LWS_PRE)
        return true;
    buffer_free(&request->out);
    request->out_sent = 0;
    request->unwritable_us = 0;
    return true;
}

/* Who may still be talking is given the time to see that it is answered. */
static void
end(struct gate_request *request)
{
    if (request->said_all || (request->body_left == 0 && request->thrown == 0)) {
        gate_request_kill(request);
        return;
    }
    request->thrown = 0;
    gate_request_set_state(request, GATE_REQUEST_LINGERING);
    gate_body_linger(request);
    if (!gate_say_no_more(request->wsi))
        gate_request_kill(request);
}

/* What a poll or a stream has to say. */
static void
fill(struct gate_request *request)
{
    if (request->route->on_writable != NULL)
        request->route->on_writable(request);
    if (request->out.len == 0 && request->state == GATE_REQUEST_OPEN)
        session_writable(request->session);
}

static void
on_writable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_request *request = io->data;
    bool has_more = request->out.len > 0;

    (void)events;
    ev_io_stop(loop, io);
    if (request->has_ended) {
        lws_set_timeout(request->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
        return; /* the request is gone */
    }
    if (!has_more)
        request->unwritable_us = 0;
    if (request->state == GATE_REQUEST_OPEN && !has_more)
        fill(request);
    if (request->state == GATE_REQUEST_ENDING)
        gate_request_detach(request);
    has_more = request->out.len > 0;
    if (has_more && !write_out(request))
        gate_request_kill(request);
    else if (request->state == GATE_REQUEST_ENDING && request->out.len == 0)
        end(request);
    else if (has_more)
        gate_request_want_write(request);
}

void
gate_reply_start(struct gate_request *request)
{
    ev_io_init(&request->writable, on_writable, lws_get_socket_fd(request->wsi), EV_WRITE);
    request->writable.data = request;
}

void
gate_reply_stop(struct gate_request *request)
{
    ev_io_stop(request->gate->loop, &request->writable);
}

void
gate_request_want_write(struct gate_request *request)
{
    if (request->has_ended)
        return;
    if (request->unwritable_us == 0)
        request->unwritable_us = clock_monotonic_us();
    ev_io_start(request->gate->loop, &request->writable);
}

void
gate_request_kill(struct gate_request *request)
{
    request->has_ended = true;
    ev_feed_event(request->gate->loop, &request->writable, EV_WRITE);
}
