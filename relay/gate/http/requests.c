/* requests.c: the requests of a connection: head, body, response, timeouts, and the next head. */
#include "gate/http/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/http/origin.h"
#include "gate/http/request_auth.h"
#include "gate/http/request_body.h"
#include "gate/http/request_slots.h"
#include "gate/http/response.h"
#include "gate/http/response_writer.h"
#include "gate/http/store_request.h"
#include "gate/net/gate_shared.h"
#include "gate/net/limits.h"
#include "hub/hub.h"
#include "wire/http_head.h"

#define STORE_TIMEOUT_US (10 * 1000000) /* maximum wait for a reply of the store */
/* Time limit for writing a response: a minimum, plus its size divided by a rate (bytes/s). */
#define ENDING_TIMEOUT_US (5 * 1000000)
#define ENDING_RATE (32 * 1024)
#define GET_BODY_MAX (64 * 1024)

static void
on_request_bytes(struct conn *conn, unsigned char *bytes, size_t len)
{
    gate_body_bytes(conn->owner, bytes, len);
}

static void
request_free(struct gate_request *request)
{
    struct gate *gate = request->gate;

    gate_request_detach(request);
    gate_request_auth_cancel(request);
    if (request->store_request != NULL)
        store_request_cancel(request->store_request);
    DL_DELETE(gate->requests->first, request);
    if (request->route->free_state != NULL)
        request->route->free_state(request);
    gate_slot_release(request);
    if (request->is_counted)
        gate_limits_remove_stream(gate, request->peer);
    log_debug("gate", "request finished", LOG_REQUEST(request));
    token_free(&request->token);
    buffer_free(&request->body);
    out_free(&request->out);
    free(request->origin);
    free(request);
}

static void
on_request_closed(struct conn *conn)
{
    request_free(conn->owner);
}

static void on_request_writable(struct conn *conn);
static void head_next(struct conn *conn);

static const struct conn_events REQUEST_EVENTS = {.on_bytes = on_request_bytes,
                                                  .on_writable = on_request_writable,
                                                  .on_closed = on_request_closed};

/*
 * After the response: the connection serves the next request, or ends. It lingers if the client may
 * still be sending, so that the client can read the response.
 */
static void
on_request_writable(struct conn *conn)
{
    struct gate_request *request = conn->owner;

    if (request->state == GATE_REQUEST_LINGERING || !gate_request_write(request) ||
        conn->phase == CONN_CLOSING)
        return;
    if (!request->is_last) {
        conn->requests++;
        request_free(request);
        head_next(conn);
    } else if (gate_body_is_unread(request) || conn_has_unread(conn)) {
        gate_request_set_state(request, GATE_REQUEST_LINGERING);
        gate_slot_release(request);
        conn_enter(conn, CONN_LINGERING, &REQUEST_EVENTS, request);
        gate_body_linger(request);
    } else {
        conn_close(conn);
    }
}

static struct gate_request *
request_new(struct conn *conn, const struct gate_route *route)
{
    struct gate *gate = conn->gate;
    struct gate_request *request = memory_new(sizeof(*request) + route->state_bytes);

    request->gate = gate;
    request->conn = conn;
    request->route = route;
    if (conn->head != NULL) {
        http_body_begin(&request->reader, conn->head);
        request->is_last = conn->head->is_last || !conn->head->is_1_1;
    }
    buffer_init(&request->body, route->body_max);
    if (gate->hub != NULL)
        request->out.waiting_bytes = hub_waiting_bytes(gate->hub);
    request->since_us = clock_monotonic_us();
    DL_APPEND(gate->requests->first, request);
    conn_enter(conn, CONN_REQUEST, &REQUEST_EVENTS, request);
    return request;
}

/* Performs the checks that precede token verification. False: *ret_rejection is the reason. */
static bool
admits(struct conn *conn, const struct gate_route *route, bool is_foreign,
       struct gate_rejection *ret_rejection)
{
    if (!gate_admits_request(conn)) {
        *ret_rejection = (struct gate_rejection){429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED};
        return false;
    }
    if (is_foreign) {
        *ret_rejection = (struct gate_rejection){403, 0, NULL, GATE_ORIGIN_NOT_ALLOWED};
        return false;
    }
    if (route->body_max == 0 && conn->head->content_length > GET_BODY_MAX) {
        *ret_rejection = (struct gate_rejection){413, 0, NULL, "GET body exceeds 64 kB"};
        return false;
    }
    if (!route->is_stream || gate_admits(conn, route->accepts_ticket, ret_rejection))
        return true;
    stats_add(conn->gate->stats, STAT_GATE_REJECTED, 1);
    return false;
}

void
gate_request_begin(struct conn *conn, const struct gate_route *route, const char *id)
{
    const char *origins = route->is_console ? NULL : conn->gate->config->gate.origins;
    struct gate_rejection rejection;
    struct gate_request *request;
    char *origin;
    bool is_foreign = !gate_origin_read(conn, origins, &origin);
    bool is_admitted = admits(conn, route, is_foreign, &rejection);

    request = request_new(conn, route);
    request->origin = origin;
    snprintf(request->id, sizeof(request->id), "%s", id);
    if (route->is_stream && is_admitted) {
        request->is_counted = true;
        request->peer = gate_limits_add_stream(conn);
    }
    if (is_admitted && route->read_headers != NULL)
        route->read_headers(request);
    if (is_admitted)
        gate_request_authenticate(request);
    else
        gate_request_reject(request, &rejection);
    if (!route->is_stream && request->state != GATE_REQUEST_ENDING && gate_slot_acquire(request) &&
        request->state == GATE_REQUEST_READING)
        gate_body_check(request);
    gate_body_start(request);
}

static const struct gate_route NO_ROUTE = {.path = "(no token)"};

void
gate_request_reply(struct conn *conn, struct response *response)
{
    gate_request_respond(request_new(conn, &NO_ROUTE), response);
}

static void
reply_malformed(struct conn *conn, struct response *response)
{
    struct gate_request *request = request_new(conn, &NO_ROUTE);

    request->is_malformed = true;
    gate_request_respond(request, response);
}

static void
head_reject(struct conn *conn, int status, const char *detail)
{
    struct response response;

    log_debug("gate", "request rejected", LOG_INT("status", status), LOG_TEXT("detail", detail));
    stats_add(conn->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    free(conn->owner);
    conn->owner = NULL;
    response_problem(&response, status, 0, detail);
    reply_malformed(conn, &response);
}

/* The bytes after the head may be a body, or further requests. */
static void
head_begin(struct conn *conn, const struct http_head *head, unsigned char *rest, size_t rest_len)
{
    free(conn->owner);
    conn->owner = NULL;
    conn->head = head;
    /* RFC 6455, 4.1: a client must wait for the response. */
    if (http_head_is_websocket(head) && rest_len > 0)
        head_reject(conn, 400, "data sent before the upgrade response");
    else
        conn->gate->serve(conn);
    conn->head = NULL;
    if (rest_len > 0 && conn->phase != CONN_CLOSING)
        conn->events->on_bytes(conn, rest, rest_len);
}

/*
 * Parses the head at the start of `bytes`. While it is incomplete, the bytes are kept in conn->in,
 * and the state of the parser in conn->owner.
 */
static void
head_parse(struct conn *conn, unsigned char *bytes, size_t len)
{
    const bool is_kept = (char *)bytes == conn->in.bytes;
    struct http_head head = {0};
    struct buffer kept;
    const char *why = "";
    enum rc rc;

    if (conn->owner != NULL)
        head = *(struct http_head *)conn->owner;
    rc = http_head_parse(&head, (const char *)bytes, len, GATE_HEAD_BYTES_MAX, &why);
    if (rc == RC_AGAIN) {
        if (conn->owner == NULL)
            conn->owner = memory_new(sizeof(head));
        *(struct http_head *)conn->owner = head;
        if (!is_kept)
            conn_keep_bytes(conn, bytes, len);
        return;
    }
    kept = conn->in; /* `bytes` must outlive the callbacks, which keep other bytes */
    if (is_kept)
        buffer_init(&conn->in, kept.limit);
    if (rc == RC_OK)
        head_begin(conn, &head, bytes + head.len, len - head.len);
    else if (rc == RC_LIMIT)
        head_reject(conn, 431, "request head too long, limits are 12 kB and 127 headers");
    else
        head_reject(conn, 400, why);
    if (is_kept)
        buffer_free(&kept);
}

static void
on_head_bytes(struct conn *conn, unsigned char *bytes, size_t len)
{
    if (conn->phase != CONN_HEAD)
        conn_enter(conn, CONN_HEAD, &GATE_HEAD_EVENTS, NULL);
    if (conn->in.len > 0) {
        conn_keep_bytes(conn, bytes, len);
        bytes = (unsigned char *)conn->in.bytes;
        len = conn->in.len;
    }
    if (conn->phase == CONN_HEAD)
        head_parse(conn, bytes, len);
}

static void
on_head_writable(struct conn *conn)
{
    (void)conn; /* the response was written completely */
}

static void
on_head_closed(struct conn *conn)
{
    free(conn->owner);
}

const struct conn_events GATE_HEAD_EVENTS = {
    .on_bytes = on_head_bytes, .on_writable = on_head_writable, .on_closed = on_head_closed};

static void
head_next(struct conn *conn)
{
    conn_enter(conn, conn->in.len == 0 ? CONN_KEPT : CONN_HEAD, &GATE_HEAD_EVENTS, NULL);
    if (conn->in.len > 0)
        head_parse(conn, (unsigned char *)conn->in.bytes, conn->in.len);
    else
        gate_limit_kept(conn->gate);
    if (conn->events == &GATE_HEAD_EVENTS)
        conn_resume(conn);
}

void
gate_requests_open(struct gate *gate)
{
    gate->requests = memory_new(sizeof(*gate->requests));
}

void
gate_requests_close(struct gate *gate)
{
    free(gate->requests);
    gate->requests = NULL;
}

static void
sweep_one(struct gate_request *request, int64_t now_us, int64_t wall_us)
{
    int64_t age_us = now_us - request->since_us;

    switch (request->state) {
    case GATE_REQUEST_READING:
        if (age_us > request->gate->config->gate.connect_timeout_ms * 1000)
            gate_request_problem(request, 408, 0, "timeout waiting for the body");
        break;
    case GATE_REQUEST_WAITING:
        if (age_us > STORE_TIMEOUT_US && !request->route->limits_its_wait)
            gate_request_no_store(request);
        break;
    case GATE_REQUEST_OPEN:
        request->route->on_sweep(request, now_us, wall_us);
        if (request->state == GATE_REQUEST_OPEN)
            gate_body_sweep(request);
        break;
    case GATE_REQUEST_ENDING:
        if (age_us > ENDING_TIMEOUT_US + (int64_t)request->response_len * 1000000 / ENDING_RATE)
            conn_close(request->conn);
        break;
    case GATE_REQUEST_LINGERING: /* conns_sweep */
        break;
    }
}

void
gate_requests_sweep(struct gate *gate, int64_t now_us, int64_t wall_us)
{
    struct gate_request *request;

    DL_FOREACH (gate->requests->first, request)
        sweep_one(request, now_us, wall_us);
}

void
gate_heads_sweep(struct gate *gate, int64_t now_us)
{
    int64_t timeout_us = gate->config->gate.connect_timeout_ms * 1000;
    struct conn *conn;

    while ((conn = gate->conns->in[CONN_HEAD].first) != NULL &&
           now_us - conn->since_us > timeout_us) {
        if (conn->in.len == 0)
            conn_close(conn); /* without a request, close without a response */
        else
            head_reject(conn, 408, "timeout waiting for the request header");
    }
}
