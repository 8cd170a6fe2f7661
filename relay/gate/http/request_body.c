/*
 * request_body.c: reads the body of a request, and detects a half-close or excess bytes.
 *
 * lws does not read the body (lws_workarounds.h). A client that half-closes (shutdown(2)) may still
 * wait for its response.
 */
#include "gate/http/request_body.h"

#include <errno.h>

#include "base/log.h"
#include "gate/http/head_check.h"
#include "gate/http/request_slots.h"
#include "gate/http/response_writer.h"
#include "gate/net/gate_shared.h"
#include "gate/net/lws_workarounds.h"
#include "gate/net/request_field.h"

#define LINGER_BODY_MAX (1024 * 1024) /* maximum bytes that are discarded after a response */
#define TOO_LONG (INT64_MAX - 1)      /* exceeds any limit */

static bool
is_complete(const struct gate_request *request)
{
    return request->state == GATE_REQUEST_READING && request->body_left == 0;
}

static void
handle_bytes(struct gate_request *request, const char *bytes, size_t len)
{
    size_t own = 0;

    if (request->state == GATE_REQUEST_READING) {
        own = (int64_t)len < request->body_left ? len : (size_t)request->body_left;
        gate_slot_add_body(request, bytes, own);
    }
    request->body_left -= (int64_t)own;
    request->discarded += len - own;
    if (own > 0 && is_complete(request))
        request->gate->requests->handler->on_body(request);
}

/*
 * Schedules on_body_readable, which clears the timer that lws starts for the remaining body
 * (workaround_clear_timer).
 */
void
gate_body_received(struct gate_request *request, const char *bytes, size_t len)
{
    handle_bytes(request, bytes, len);
    ev_feed_event(request->gate->loop, &request->readable, EV_READ);
}

/*
 * A client that half-closed still receives a response, unless its body is incomplete or the route
 * cancels the request.
 */
static void
handle_half_close(struct gate_request *request)
{
    request->half_closed = true;
    ev_io_stop(request->gate->loop, &request->readable);
    if (request->state == GATE_REQUEST_READING || request->state == GATE_REQUEST_LINGERING ||
        request->route->ends_on_half_close)
        gate_request_kill(request);
    else if (request->state == GATE_REQUEST_OPEN && request->route->on_half_closed != NULL)
        request->route->on_half_closed(request);
}

static ssize_t
read_some(struct gate_request *request)
{
    struct gate *gate = request->gate;

    if (request->state == GATE_REQUEST_LINGERING)
        return conn_io_discard(&request->io, gate->received, sizeof(gate->received));
    return conn_io_read(&request->io, gate->received, sizeof(gate->received));
}

/* One read per iteration, for fairness. TLS may buffer more bytes than poll(2) reports. */
static void
on_body_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_request *request = io->data;
    ssize_t got;

    (void)loop;
    (void)events;
    workaround_clear_timer(&request->io);
    do {
        size_t max = request->state == GATE_REQUEST_LINGERING ? LINGER_BODY_MAX : GATE_LINGER_BYTES;

        got = read_some(request);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got == 0) {
            handle_half_close(request);
            return;
        }
        if (got > 0)
            handle_bytes(request, (const char *)request->gate->received, (size_t)got);
        if (got < 0 || request->discarded > max) {
            ev_io_stop(request->gate->loop, io);
            gate_request_kill(request);
            return;
        }
    } while (conn_io_has_buffered(&request->io) && request->state != GATE_REQUEST_LINGERING);
}

void
gate_body_start(struct gate_request *request)
{
    workaround_release_head(&request->io);
    workaround_read_past(&request->io);
    ev_io_init(&request->readable, on_body_readable, request->io.fd, EV_READ);
    request->readable.data = request;
    ev_io_start(request->gate->loop, &request->readable);
    if (conn_io_has_buffered(&request->io))
        ev_feed_event(request->gate->loop, &request->readable, EV_READ);
    if (is_complete(request))
        request->gate->requests->handler->on_body(request);
}

void
gate_body_stop(struct gate_request *request)
{
    ev_io_stop(request->gate->loop, &request->readable);
}

/* RFC 9110, 10.1.1: the client waits for 100 Continue before it sends the body; HTTP/1.1 only. */
static void
send_continue(const struct gate_request *request)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct lws *wsi = request->io.wsi;

    if (!request_field_is(wsi, FIELD_VERSION, "HTTP/1.1") ||
        !request_field_is(wsi, FIELD_EXPECT, "100-continue"))
        return;
    if (conn_io_write_raw(&request->io, (const unsigned char *)CONTINUE, sizeof(CONTINUE) - 1) !=
        RC_OK)
        log_debug("gate", "could not write 100 Continue", LOG_REQUEST(request));
}

/* RFC 9112, 6.3: without one of the two headers there is no body. */
static bool
has_no_body(struct lws *wsi)
{
    return request_field_len(wsi, FIELD_CONTENT_LENGTH) <= 0 &&
           request_field_len(wsi, FIELD_TRANSFER_ENCODING) <= 0;
}

void
gate_body_check(struct gate_request *request)
{
    bool has_body = !has_no_body(request->io.wsi);
    int64_t len = gate_body_len(request->io.wsi);

    if (!has_body && request->route->body_optional)
        return;
    if (!has_body || len == GATE_BODY_LEN_UNKNOWN)
        gate_request_problem(request, 411, 0, "Content-Length required, chunked body rejected");
    else if (len > (int64_t)request->route->body_max)
        gate_request_body_too_large(request);
    else if (len > 0)
        send_continue(request);
}

int64_t
gate_body_len(struct lws *wsi)
{
    char text[16]; /* only digits, as http_head.c has checked */
    int64_t len = 0;
    int got = request_field_copy(wsi, FIELD_CONTENT_LENGTH, text, sizeof(text));

    if (has_no_body(wsi))
        return 0;
    if (got == 0 || request_field_len(wsi, FIELD_TRANSFER_ENCODING) > 0)
        return GATE_BODY_LEN_UNKNOWN;
    if (got < 0)
        return TOO_LONG;
    for (const char *at = text; *at >= '0' && *at <= '9'; at++)
        len = len * 10 + (*at - '0');
    return len;
}
