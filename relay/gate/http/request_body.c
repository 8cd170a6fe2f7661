/*
 * request_body.c: what a client sends behind the head of its request: the body, the end, or too
 * much.
 *
 * lws reads no more of it. It would keep the headers to the end, of which it has so many; take what
 * comes behind for the next request; turn in circles over what it may not take yet; and take a
 * client that says no more (shutdown(2), after which it may wait for the answer) for gone.
 */
#include "gate/gate_request.h"

#include <errno.h>
#include <sys/socket.h>

#include <openssl/ssl.h>

/* All that there will be: 0 bytes or more, of a body or not. */
static bool
is_complete(const struct gate_request *request)
{
    return request->state == GATE_REQUEST_READING && request->body_left == 0;
}

static void
take(struct gate_request *request, const char *bytes, size_t len)
{
    size_t own = 0;

    if (request->state == GATE_REQUEST_READING) {
        own = (int64_t)len < request->body_left ? len : (size_t)request->body_left;
        gate_body_add(request, bytes, own);
    }
    request->body_left -= (int64_t)own;
    request->thrown += len - own;
    if (own > 0 && is_complete(request))
        gate_request_body_end(request);
}

/* lws goes on to set a time for the rest of it, which on_readable takes back. */
void
gate_rest_take(struct gate_request *request, const char *bytes, size_t len)
{
    take(request, bytes, len);
    ev_feed_event(request->gate->loop, &request->readable, EV_READ);
}

/* The client will say no more. What it asked for is still answered, unless it takes a while. */
static void
take_end(struct gate_request *request)
{
    request->said_all = true;
    ev_io_stop(request->gate->loop, &request->readable);
    if (request->state == GATE_REQUEST_READING || request->state == GATE_REQUEST_LINGERING ||
        request->route->needs_client)
        gate_request_kill(request);
    else if (request->state == GATE_REQUEST_OPEN)
        gate_poll_hurry(request);
}

/* Once we have said that we say no more, TLS has nothing to tell us either. */
static ssize_t
read_some(struct gate_request *request)
{
    struct gate *gate = request->gate;

    if (request->state == GATE_REQUEST_LINGERING)
        return recv(request->readable.fd, gate->received, sizeof(gate->received), 0);
    return gate_read_some(request->wsi, gate->received, sizeof(gate->received));
}

/* One piece a turn, so that nobody holds up the others; TLS may hold more than poll can see. */
static void
on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_request *request = io->data;
    SSL *ssl = lws_get_ssl(request->wsi);
    ssize_t got;

    (void)loop;
    (void)events;
    lws_set_timeout(request->wsi, NO_PENDING_TIMEOUT, 0); /* that of a body, which is our own */
    do {
        size_t most = request->state == GATE_REQUEST_LINGERING ? GATE_BODY_MAX : GATE_LINGER_BYTES;

        got = read_some(request);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got == 0) {
            take_end(request);
            return;
        }
        if (got > 0)
            take(request, (const char *)request->gate->received, (size_t)got);
        if (got < 0 || request->thrown > most) {
            ev_io_stop(request->gate->loop, io);
            gate_request_kill(request);
            return;
        }
    } while (ssl != NULL && SSL_pending(ssl) > 0 && request->state != GATE_REQUEST_LINGERING);
}

void
gate_rest_start(struct gate_request *request)
{
    SSL *ssl = lws_get_ssl(request->wsi);

    lws_http_headers_detach(request->wsi);
    lws_set_timeout(request->wsi, NO_PENDING_TIMEOUT, 0);
    lws_rx_flow_control(request->wsi, 0); /* for good */
    ev_io_init(&request->readable, on_readable, lws_get_socket_fd(request->wsi), EV_READ);
    request->readable.data = request;
    ev_io_start(request->gate->loop, &request->readable);
    if (ssl != NULL && SSL_pending(ssl) > 0)
        ev_feed_event(request->gate->loop, &request->readable, EV_READ);
    if (is_complete(request))
        gate_request_body_end(request);
}

void
gate_rest_stop(struct gate_request *request)
{
    ev_io_stop(request->gate->loop, &request->readable);
}
