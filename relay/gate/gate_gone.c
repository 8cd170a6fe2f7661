/*
 * gate_gone.c: a request that has no body and waits for its answer, or is a stream.
 *
 * lws would keep its headers to the end, of which it has so many. One that still says something
 * would wake version 4.1 again and again, as it does not read it, and make 4.3 take it for the next
 * request and write no more.
 */
#include <errno.h>

#include <openssl/ssl.h>

#include "gate/gate_request.h"

#define BEFORE_LWS 1 /* its watchers have priority 0 */

/* Stopped, lws's own watcher loses the event; there is nothing left to read when it goes on. */
static void
hide_from_lws(struct lws *wsi)
{
    lws_rx_flow_control(wsi, 0);
    lws_rx_flow_control(wsi, 1);
}

static void
on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_request *request = io->data;
    struct gate *gate = request->gate;
    SSL *ssl = lws_get_ssl(request->wsi);
    ssize_t got;

    (void)loop;
    (void)events;
    do {
        got = gate_read_some(request->wsi, gate->received, sizeof(gate->received));
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (got > 0)
            request->thrown += (size_t)got;
        if (got <= 0 || request->thrown > GATE_LINGER_BYTES) {
            gate_gone_stop(request);
            gate_request_kill(request);
            return;
        }
    } while (ssl != NULL && SSL_pending(ssl) > 0);
    hide_from_lws(request->wsi);
}

void
gate_gone_watch(struct gate_request *request)
{
    lws_http_headers_detach(request->wsi);
    ev_io_init(&request->readable, on_readable, lws_get_socket_fd(request->wsi), EV_READ);
    ev_set_priority(&request->readable, BEFORE_LWS);
    request->readable.data = request;
    ev_io_start(request->gate->loop, &request->readable);
}

void
gate_gone_stop(struct gate_request *request)
{
    ev_io_stop(request->gate->loop, &request->readable);
}
