/*
 * gate_gone.c: a request that has no body and waits for its answer, or is a stream.
 *
 * lws would keep its headers to the end, of which it has so many, and would be woken by each byte
 * that it does not read, and by the client's end, again and again.
 */
#include <errno.h>

#include <openssl/ssl.h>

#include "gate/gate_request.h"

#define BEFORE_LWS 1 /* its watchers have priority 0 */

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
            return;
        if (got > 0)
            request->thrown += (size_t)got;
        if (got <= 0 || request->thrown > GATE_LINGER_BYTES) {
            gate_gone_stop(request);
            gate_request_kill(request);
            return;
        }
    } while (ssl != NULL && SSL_pending(ssl) > 0);
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
