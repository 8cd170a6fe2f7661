/*
 * request_body.c: reads the body of a request.
 *
 * Reading is paused from the end of a request to the end of its response: a client that half-closes
 * (shutdown(2)) may still wait for its response (conn_pause). Bytes of the next request that have
 * arrived are kept.
 */
#include "gate/http/request_body.h"

#include <string.h>

#include "base/log.h"
#include "gate/http/request_auth.h"
#include "gate/http/request_slots.h"
#include "gate/http/response_writer.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"

#define LINGER_BYTES_MAX (8 * 1024 * 1024) /* maximum bytes that are discarded after a response */
#define STREAM_BYTES_MAX (64 * 1024)       /* maximum bytes that a client sends on a stream */

/* RFC 9110, 10.1.1: the client waits for 100 Continue before it sends the body; HTTP/1.1 only. */
static void
send_continue(struct gate_request *request)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct http_head *head = request->conn->head;

    if (head->is_1_1 && http_head_is(head, "expect", "100-continue") &&
        conn_write(request->conn, CONTINUE, strlen(CONTINUE)) != (ssize_t)strlen(CONTINUE))
        conn_close(request->conn);
}

void
gate_body_check(struct gate_request *request)
{
    const struct http_head *head = request->conn->head;

    if (!head->has_length && !head->is_chunked) {
        if (!request->route->body_optional)
            gate_request_problem(request, 411, 0, "Content-Length or chunked body required");
    } else if (head->content_length > (int64_t)request->route->body_max) {
        gate_request_body_too_large(request);
    } else if (gate_body_is_unread(request)) {
        send_continue(request);
    }
}

static void
handle_complete(struct gate_request *request)
{
    conn_pause(request->conn);
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    gate_request_handle(request);
}

void
gate_body_start(struct gate_request *request)
{
    if (request->state == GATE_REQUEST_READING && gate_body_is_unread(request))
        conn_resume(request->conn);
    else if (request->state == GATE_REQUEST_READING)
        handle_complete(request);
    else if (request->state != GATE_REQUEST_OPEN || !request->route->ends_on_half_close)
        conn_pause(request->conn);
}

static void
read_body(struct gate_request *request, const char *bytes, size_t len)
{
    while (len > 0 && request->state == GATE_REQUEST_READING && gate_body_is_unread(request)) {
        const char *why = "";
        struct bytes data;
        size_t used = 0;

        if (http_body_next(&request->reader, bytes, len, &used, &data, &why) != RC_OK) {
            stats_add(request->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
            request->is_malformed = true;
            gate_request_problem(request, 400, 0, why);
            return;
        }
        if (data.len > 0)
            gate_slot_add_body(request, (const char *)data.at, data.len);
        bytes += used;
        len -= used;
    }
    conn_keep_bytes(request->conn, bytes, len);
    if (request->state == GATE_REQUEST_READING && !gate_body_is_unread(request))
        handle_complete(request);
}

/*
 * Discards the body, so that a client or gateway that is still sending can read the response. At
 * its end, half-closes and waits for the client: a close with unread bytes would send a reset.
 */
static void
discard(struct gate_request *request, const char *bytes, size_t len)
{
    const bool was_unread = gate_body_is_unread(request);
    struct bytes data;
    const char *why;
    size_t used;

    request->discarded += len;
    while (len > 0 && !request->is_malformed && gate_body_is_unread(request)) {
        request->is_malformed =
            http_body_next(&request->reader, bytes, len, &used, &data, &why) != RC_OK;
        if (!request->is_malformed) {
            bytes += used;
            len -= used;
        }
    }
    if (request->discarded > LINGER_BYTES_MAX ||
        (was_unread && !gate_body_is_unread(request) && !conn_half_close(request->conn)))
        conn_close(request->conn);
}

void
gate_body_linger(struct gate_request *request)
{
    struct conn *conn = request->conn;
    struct buffer kept = conn->in;

    buffer_init(&conn->in, kept.limit);
    if (request->is_malformed || !gate_body_is_unread(request)) {
        if (!conn_half_close(conn))
            conn_close(conn);
    }
    discard(request, kept.bytes, kept.len);
    buffer_free(&kept);
    conn_resume(conn);
}

void
gate_body_bytes(struct gate_request *request, const unsigned char *bytes, size_t len)
{
    switch (request->state) {
    case GATE_REQUEST_READING:
        read_body(request, (const char *)bytes, len);
        break;
    case GATE_REQUEST_LINGERING:
        discard(request, (const char *)bytes, len);
        break;
    case GATE_REQUEST_OPEN:
        if (request->route->ends_on_half_close) {
            request->discarded += len;
            if (request->discarded > STREAM_BYTES_MAX)
                conn_close(request->conn);
            break;
        }
        /* fallthrough */
    case GATE_REQUEST_WAITING:
    case GATE_REQUEST_ENDING:
        conn_keep_bytes(request->conn, bytes, len);
        break;
    }
}

/*
 * A client that half-closes still receives a response. But a poll does not wait for notifications
 * of a client that may have disconnected.
 */
void
gate_body_sweep(struct gate_request *request)
{
    if (request->half_closed || request->route->on_half_closed == NULL ||
        !conn_is_half_closed(request->conn))
        return;
    request->half_closed = true;
    request->route->on_half_closed(request);
}
