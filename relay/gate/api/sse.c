/* sse.c: GET /v1/sse: a session as server-sent events. */
#include "gate/api/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gate/api/stream_lines.h"
#include "gate/http/request_session.h"
#include "gate/http/response.h"
#include "gate/http/response_writer.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"
#include "hub/session.h"

#define RETRY_MS 2000
#define OUT_TARGET_BYTES (256 * 1024)

static struct gate_sse *
sse_of(struct gate_request *request)
{
    return (struct gate_sse *)request->route_state;
}

/* Sends text that is not part of the session. The sweep closes a client that does not read. */
static void
send_own(struct gate_request *request, const char *text, size_t len)
{
    out_add(&request->out, text, len);
    gate_request_want_write(request);
}

static void
add_event(struct gate_request *request, struct bytes line, const struct gate_frame *frame)
{
    struct bytes pos = stream_line_pos((const char *)line.at, line.len);
    struct out *out = &request->out;

    out_add(out, "data: ", 6);
    out_add_shared(out, line.at, line.len, frame->owner);
    out_add_shared(out, frame->rest.at, frame->rest.len, frame->rest_owner);
    if (pos.at != NULL) {
        out_add(out, "\nid: ", 5);
        out_add(out, pos.at, pos.len);
    }
    out_add(out, "\n\n", 2);
}

/* Limits `out`; the session keeps the remaining frames. */
bool
gate_sse_lines(struct gate_request *request, const struct gate_frame *frame)
{
    struct bytes text = frame->text;
    struct bytes line;

    if (request->out.len >= OUT_TARGET_BYTES)
        return false;
    while (stream_next_line(&text, &line))
        add_event(request, line, frame);
    return true;
}

static void
send_head(struct gate_request *request)
{
    struct response response;
    char head[1024];
    int len;

    response_init(&response, 200, "text/event-stream");
    response_allow_origin(&response, request->origin);
    len = snprintf(head, sizeof(head),
                   "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                   "Cache-Control: no-store, no-transform\r\nX-Accel-Buffering: no\r\n%s"
                   "Connection: close\r\n\r\nretry: %d\n\n",
                   response.headers.len > 0 ? response.headers.bytes : "", RETRY_MS);
    buffer_free(&response.headers);
    if (len > 0 && (size_t)len < sizeof(head))
        send_own(request, head, (size_t)len);
    else
        conn_close(request->conn);
}

void
gate_sse_headers(struct gate_request *request)
{
    struct gate_sse *sse = sse_of(request);

    sse->pos = http_head_text(request->conn->head, "last-event-id", SESSION_POS_MAX - 1);
    if (sse->pos == NULL)
        sse->pos = http_head_argument(request->conn->head, "pos=", SESSION_POS_MAX - 1);
    sse->topics = http_head_argument(request->conn->head, "topics=", SESSION_TOPICS_BYTES_MAX);
    sse->lists = http_head_argument(request->conn->head, "rows=", STREAM_LISTS_BYTES_MAX);
}

void
gate_sse_begin(struct gate_request *request)
{
    struct gate_sse *sse = sse_of(request);
    const char *names[SESSION_TOPICS_MAX];
    struct session_request wanted = {.pos = sse->pos, .topics = {names, 0}};
    struct stream_list lists[SESSION_UNVERIFIED_LISTS_MAX];
    size_t list_count = 0;
    const struct config *config = request->gate->config;

    if (!stream_split_lists(sse->lists, lists, &list_count)) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_BAD_LISTS);
        return;
    }
    if (!stream_split_topics(sse->topics, names, &wanted.topics.count)) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_BAD_TOPICS);
        return;
    }
    sse->ping_due_us = clock_monotonic_us() + config->gate.ping_ms * 1000;
    gate_expiry_begin(&sse->expiry, config, request->token.expires_s);
    /* SSE has no pong, so only TCP can detect a dead client. */
    conn_set_ack_timeout(request->conn, config->gate.ping_ms + config->gate.pong_timeout_ms);
    gate_request_attach(request, &wanted);
    buffer_free(&request->conn->in); /* a stream is the last request */
    request->is_last = true;
    conn_resume(request->conn);
    for (size_t i = 0; i < list_count; i++)
        session_watch_rows(request->session, lists[i].source, lists[i].rule);
    send_head(request);
}

static void
send_line(struct gate_request *request, const char *line, size_t len)
{
    send_own(request, "data: ", 6);
    send_own(request, line, len);
    send_own(request, "\n\n", 2);
}

void
gate_sse_end(struct gate_request *request, int code, const char *reason, int64_t in_ms)
{
    char line[GATE_CLOSE_REASON_MAX + 96];
    char in[32] = "";
    int len;

    if (request->state != GATE_REQUEST_OPEN)
        return;
    if (in_ms >= 0)
        snprintf(in, sizeof(in), ",\"in\":%lld", (long long)in_ms);
    /* reasons are constants of the relay and need no escaping */
    len = snprintf(line, sizeof(line), "{\"t\":\"bye\",\"code\":%d,\"msg\":\"%s\"%s}", code, reason,
                   in);
    if (len > 0 && (size_t)len < sizeof(line))
        send_line(request, line, (size_t)len);
    gate_request_set_state(request, GATE_REQUEST_ENDING);
    request->response_len = request->out.len;
    gate_request_want_write(request);
}

static void
check_expiry(struct gate_request *request, int64_t wall_us)
{
    char line[GATE_EXPIRING_MAX];
    struct gate_sse *sse = sse_of(request);
    int len = gate_expiry_check(&sse->expiry, request->gate->config, wall_us, line);

    if (len < 0)
        gate_sse_end(request, GATE_CLOSE_EXPIRED, "token expired", -1);
    else if (len > 0)
        send_line(request, line, (size_t)len);
}

void
gate_sse_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us)
{
    const struct config *config = request->gate->config;
    struct gate_sse *sse = sse_of(request);

    if (session_slow(request->session, now_us) != NULL ||
        (request->unwritable_us != 0 &&
         now_us - request->unwritable_us > config->gate.slow_age_ms * 1000)) {
        conn_close(request->conn); /* a bye would not arrive */
        return;
    }
    check_expiry(request, wall_us);
    if (request->state != GATE_REQUEST_OPEN || now_us < sse->ping_due_us)
        return;
    sse->ping_due_us = now_us + config->gate.ping_ms * 1000;
    send_own(request, ":\n\n", 3);
}

void
gate_sse_free(struct gate_request *request)
{
    free(sse_of(request)->pos);
    free(sse_of(request)->topics);
    free(sse_of(request)->lists);
}
