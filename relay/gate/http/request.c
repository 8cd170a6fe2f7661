/*
 * request.c: one HTTP request: its states, its response, and what it holds.
 *
 * Requests in progress, except polls and streams, are limited, and so is the memory of their bodies
 * and responses. Slow clients must not use up the limit. The oldest request has had the most time,
 * so it is evicted first.
 */
#include "gate/http/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/states.h"
#include "gate/http/auth.h"
#include "gate/net/gate_shared.h"
#include "gate/net/client_limits.h"
#include "hub/hub.h"
#include "store/store.h"

#define RESPONSES_MAX (64 * 1024 * 1024) /* maximum bytes of all unfinished responses */
#define IN_PROGRESS_MAX 512
#define BODIES_MAX (64 * 1024 * 1024) /* maximum bytes of all bodies */
#define BODY_MAX (64 * 1024 * 1024)   /* a poll may return large notifications */
#define HEADERS_MAX 2048
#define REQUESTS_MAX 10000 /* on one connection */

void
gate_request_set_state(struct gate_request *request, enum gate_request_state state)
{
    static const struct states STATES = {
        .object = "request",
        .names = {"reading", "waiting", "open", "ending", "lingering"},
        .before = {[GATE_REQUEST_WAITING] = 1u << GATE_REQUEST_READING | 1u << GATE_REQUEST_WAITING,
                   [GATE_REQUEST_OPEN] = 1u << GATE_REQUEST_READING | 1u << GATE_REQUEST_WAITING,
                   [GATE_REQUEST_ENDING] = 1u << GATE_REQUEST_READING | 1u << GATE_REQUEST_WAITING |
                                           1u << GATE_REQUEST_OPEN,
                   [GATE_REQUEST_LINGERING] = 1u << GATE_REQUEST_ENDING},
    };

    if (!states_allow(&STATES, request->state, state, request->gate->stats))
        conn_close(request->conn);
    request->state = state;
    request->since_us = clock_monotonic_us();
}

struct gate_request *
gate_request_new(struct conn *conn, const struct gate_route *route, struct gate_request *ahead)
{
    struct gate *gate = conn->gate;
    struct gate_request *request = memory_new(sizeof(*request) + route->state_bytes);

    request->gate = gate;
    request->conn = conn;
    request->route = route;
    request->ahead = ahead;
    if (ahead != NULL)
        ahead->behind = request;
    if (conn->head != NULL) {
        http_body_begin(&request->reader, conn->head);
        request->is_last = conn->head->is_last || !conn->head->is_1_1;
    }
    buffer_init(&request->body, route->body_max);
    if (gate->hub != NULL)
        request->out.waiting_bytes = hub_waiting_bytes(gate->hub);
    request->since_us = clock_monotonic_us();
    DL_APPEND(gate->requests->first, request);
    return request;
}

/*
 * Detaches the session. Call it from the loop, never from the hub, which may be iterating its
 * sessions.
 */
static void
detach(struct gate_request *request)
{
    if (request->session != NULL)
        session_detach(request->session);
    request->session = NULL;
}

void
gate_request_uncount(struct gate_request *request)
{
    struct requests *requests = request->gate->requests;

    if (!request->is_counted)
        return;
    request->is_counted = false;
    DL_DELETE2(requests->in_progress, request, counted_prev, counted_next);
    requests->in_progress_count--;
    requests->body_bytes -= request->body.len;
    buffer_free(&request->body);
    requests->response_bytes -= request->response_len;
}

/* Returns the oldest other request whose response is not written completely. NULL: none. */
static struct gate_request *
oldest_response(const struct gate_request *request)
{
    struct gate_request *each;

    DL_FOREACH2(request->gate->requests->in_progress, each, counted_next)
    {
        if (each != request && each->state == GATE_REQUEST_ENDING && each->ahead == NULL)
            return each;
    }
    return NULL;
}

/* Counts the response that was just queued. May close clients that are slow to read theirs. */
static void
count_response(struct gate_request *request)
{
    struct requests *requests = request->gate->requests;
    struct gate_request *oldest;

    if (!request->is_counted)
        return;
    requests->response_bytes += request->response_len;
    while (requests->response_bytes > RESPONSES_MAX &&
           (oldest = oldest_response(request)) != NULL) {
        log_debug("gate", "slow client closed: all responses exceed their limit",
                  LOG_REQUEST(oldest));
        gate_request_uncount(oldest);
        conn_close(oldest->conn);
    }
}

static void
reject_overload(struct gate_request *request)
{
    stats_add(request->gate->stats, STAT_GATE_REJECTED, 1);
    gate_request_problem(request, 503, 0, "too many requests in progress");
    gate_request_uncount(request);
}

/* False: all bodies are complete, so no request can be evicted. */
static bool
make_room(struct gate *gate)
{
    struct gate_request *request;

    DL_FOREACH2(gate->requests->in_progress, request, counted_next)
    {
        if (request->state == GATE_REQUEST_READING) {
            reject_overload(request);
            return true;
        }
    }
    return false;
}

bool
gate_requests_are_many(const struct gate *gate)
{
    return gate->requests->in_progress_count >= IN_PROGRESS_MAX / 2;
}

bool
gate_request_admit(struct gate_request *request)
{
    struct requests *requests = request->gate->requests;

    if (requests->in_progress_count >= IN_PROGRESS_MAX && !make_room(request->gate)) {
        reject_overload(request);
        return false;
    }
    request->is_counted = true;
    DL_APPEND2(requests->in_progress, request, counted_prev, counted_next);
    requests->in_progress_count++;
    return true;
}

void
gate_request_add_body(struct gate_request *request, const char *bytes, size_t len)
{
    struct gate *gate = request->gate;

    while (gate->requests->body_bytes + len > BODIES_MAX && make_room(gate))
        ;
    if (request->state != GATE_REQUEST_READING) /* this request was the oldest and was rejected */
        return;
    if (gate->requests->body_bytes + len > BODIES_MAX)
        reject_overload(request);
    else if (buffer_add(&request->body, bytes, len) != RC_OK)
        gate_request_body_too_large(request);
    else
        gate->requests->body_bytes += len;
}

static const struct {
    int status;
    const char *phrase;
} REASON_PHRASES[] = {
    {200, "OK"},
    {201, "Created"},
    {204, "No Content"},
    {304, "Not Modified"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
};

static const char *
reason_phrase(int status)
{
    for (size_t i = 0; i < sizeof(REASON_PHRASES) / sizeof(REASON_PHRASES[0]); i++) {
        if (REASON_PHRASES[i].status == status)
            return REASON_PHRASES[i].phrase;
    }
    return "Unknown";
}

void
response_init(struct response *response, int status, const char *type)
{
    *response = (struct response){.status = status, .type = type};
    buffer_init(&response->headers, HEADERS_MAX);
    buffer_init(&response->body, BODY_MAX);
}

void
response_problem(struct response *response, int status, int code, const char *detail)
{
    enum rc rc;

    response_init(response, status, "application/problem+json");
    rc = buffer_addf(&response->body,
                     "{\"title\":\"%s\",\"status\":%d,\"detail\":", reason_phrase(status), status);
    if (rc == RC_OK)
        rc = buffer_add_json(&response->body, detail, strlen(detail));
    if (rc == RC_OK && code != 0)
        rc = buffer_addf(&response->body, ",\"code\":%d", code);
    if (rc == RC_OK)
        rc = buffer_add(&response->body, "}\n", 2);
    if (rc != RC_OK)
        buffer_clear(&response->body);
    if (status == 401)
        response_header(response, "WWW-Authenticate: Bearer%s",
                        code != 0 ? " error=\"invalid_token\"" : "");
}

void
response_header(struct response *response, const char *format, ...)
{
    char line[HEADERS_MAX / 2];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len > 0 && (size_t)len < sizeof(line) &&
        buffer_addf(&response->headers, "%s\r\n", line) != RC_OK)
        return;
}

void
response_problem_with(struct response *response, int status, int code, const char *header,
                      const char *detail)
{
    response_problem(response, status, code, detail);
    if (header != NULL)
        response_header(response, "%s", header);
}

void
response_allow_origin(struct response *response, const char *origin)
{
    if (origin == NULL)
        return;
    response_header(response, "Access-Control-Allow-Origin: %s", origin);
    response_header(response, "Access-Control-Expose-Headers: Clairon-Pos, Clairon-Next, "
                              "Retry-After, Idempotency-Replayed, Location, Preference-Applied");
    response_header(response, "Vary: Origin");
}

/*
 * Writes head and body to `out`. Frees the response, except `lines`, which the caller writes.
 * `is_last`: the connection ends after the response.
 */
static enum rc
response_build(struct response *response, bool is_last, struct buffer *out)
{
    const char *connection = is_last ? "Connection: close\r\n" : "";
    const bool has_content = response->status != 204 && response->status != 304;
    enum rc rc;

    /* RFC 9110, 7.8: a sender of Upgrade also names it in Connection, and 426 requires Upgrade. */
    if (response->status == 426)
        connection = "Upgrade: websocket\r\nConnection: upgrade, close\r\n";
    buffer_init(out, BODY_MAX + 2 * HEADERS_MAX);
    rc = buffer_addf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", response->status,
                     reason_phrase(response->status), clock_http_date(clock_wall_us()));
    if (rc == RC_OK && has_content)
        rc = buffer_addf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", response->type,
                         response->body.len + response->lines.len);
    if (rc == RC_OK)
        rc = buffer_addf(out, "Cache-Control: %s\r\nX-Content-Type-Options: nosniff\r\n%s%s\r\n",
                         response->has_etag ? "no-cache" : "no-store",
                         response->headers.len > 0 ? response->headers.bytes : "", connection);
    if (rc == RC_OK && !response->head && has_content)
        rc = buffer_add(out, response->body.bytes, response->body.len);
    buffer_free(&response->headers);
    buffer_free(&response->body);
    if (rc != RC_OK)
        buffer_free(out);
    return rc;
}

bool
gate_request_write(struct gate_request *request)
{
    size_t before;
    enum rc rc;

    if (request->out.len == 0) {
        request->unwritable_us = 0;
        if (request->state == GATE_REQUEST_OPEN && request->route->on_writable != NULL)
            request->route->on_writable(request);
        if (request->state == GATE_REQUEST_OPEN && request->out.len == 0)
            session_writable(request->session);
    }
    if (request->state == GATE_REQUEST_ENDING)
        detach(request);
    before = request->out.len;
    if (before == 0)
        return request->state == GATE_REQUEST_ENDING;
    rc = out_write(&request->out, request->conn, GATE_TURN_BYTES);
    if (request->session != NULL && request->out.len < before)
        session_accepted(request->session);
    if (rc == RC_IO) {
        conn_close(request->conn);
        return false;
    }
    if (rc == RC_OK)
        request->unwritable_us = 0;
    if (rc == RC_OK && request->state == GATE_REQUEST_ENDING)
        return true;
    gate_request_want_write(request);
    return false;
}

void
gate_request_want_write(struct gate_request *request)
{
    if (request->conn->phase == CONN_CLOSING)
        return;
    if (request->unwritable_us == 0)
        request->unwritable_us = clock_monotonic_us();
    conn_want_writable(request->conn);
}

void
gate_request_respond(struct gate_request *request, struct response *response)
{
    struct buffer built;

    response_allow_origin(response, request->origin);
    out_free(&request->out);
    /* a request that follows has a response, too */
    if (request->behind == NULL &&
        (request->gate->state != GATE_OPEN || gate_body_is_unread(request) ||
         response->status == 426 || request->conn->http->requests >= REQUESTS_MAX))
        request->is_last = true;
    if (response_build(response, request->is_last, &built) == RC_OK) {
        out_add_buffer(&request->out, &built);
        out_move(&request->out, &response->lines);
    } else {
        log_error("gate", "response exceeds its buffer limit", LOG_REQUEST(request));
        conn_close(request->conn);
    }
    out_free(&response->lines);
    request->response_len = request->out.len;
    gate_request_set_state(request, GATE_REQUEST_ENDING);
    conn_pause(request->conn);
    count_response(request);
    conn_write_soon(request->conn);
}

#define LIMIT_DIGITS_MAX 8

unsigned
gate_request_limit(const struct gate_request *request, unsigned missing, unsigned max)
{
    unsigned limit = missing;
    char *text = NULL;

    if (http_head_argument(request->conn->head, "limit=", LIMIT_DIGITS_MAX, &text) != RC_OK)
        return 0;
    if (text != NULL) {
        limit = strspn(text, "0123456789") == strlen(text) ? (unsigned)strtoul(text, NULL, 10) : 0;
        if (limit > max)
            limit = 0;
    }
    free(text);
    return limit;
}

void
gate_request_problem(struct gate_request *request, int status, int code, const char *detail)
{
    struct response response;

    response_problem(&response, status, code, detail);
    if (status == 503 || status == 429 || status == 409)
        response_header(&response, "Retry-After: %d", GATE_RETRY_AFTER_S);
    log_debug("gate", "request failed", LOG_INT("status", status), LOG_TEXT("detail", detail),
              LOG_REQUEST(request));
    gate_request_respond(request, &response);
}

void
gate_request_reject(struct gate_request *request, const struct gate_rejection *rejection)
{
    struct response response;

    response_problem_with(&response, rejection->status, rejection->code, rejection->header,
                          rejection->detail);
    gate_request_respond(request, &response);
}

void
gate_request_respond_whole(struct gate_request *request, struct response *response, enum rc written)
{
    if (written == RC_OK) {
        gate_request_respond(request, response);
        return;
    }
    buffer_free(&response->headers);
    buffer_free(&response->body);
    gate_request_problem(request, 500, 0, "response too large");
}

void
gate_request_body_too_large(struct gate_request *request)
{
    char detail[64];

    snprintf(detail, sizeof(detail), "request body exceeds %zu bytes", request->route->body_max);
    gate_request_problem(request, 413, 0, detail);
}

void
gate_request_no_store(struct gate_request *request)
{
    const struct gate *gate = request->gate;
    const bool is_full = gate->hub != NULL && store_rejects_heartbeats(hub_store(gate->hub));

    gate_request_problem(request, 503, 0,
                         is_full ? "store rejects writes" : "store does not reply");
}

void
gate_request_respond_empty(struct gate_request *request)
{
    struct response response;

    response_init(&response, 204, GATE_JSON);
    gate_request_respond(request, &response);
}

struct store_request {
    struct gate_request *request; /* NULL: cancelled */
};

struct store_request *
store_request_new(struct gate_request *request)
{
    struct store_request *store_request = memory_new(sizeof(*store_request));

    store_request->request = request;
    request->store_request = store_request;
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    return store_request;
}

struct gate_request *
store_request_done(struct store_request *store_request)
{
    struct gate_request *request = store_request->request;

    free(store_request);
    if (request == NULL)
        return NULL;
    request->store_request = NULL;
    return request->state == GATE_REQUEST_WAITING ? request : NULL;
}

struct gate_request *
store_request_reply(struct store_request *store_request, enum rc rc)
{
    struct gate_request *request = store_request_done(store_request);

    if (request == NULL || rc == RC_OK)
        return request;
    gate_request_no_store(request);
    return NULL;
}

void
store_request_sent(struct store_request *store_request, enum rc rc)
{
    if (rc != RC_OK)
        (void)store_request_reply(store_request, rc);
}

void
gate_request_free(struct gate_request *request)
{
    struct gate *gate = request->gate;

    detach(request);
    if (request->redeem != NULL)
        gate_redeem_cancel(request->redeem);
    if (request->store_request != NULL)
        request->store_request->request = NULL;
    DL_DELETE(gate->requests->first, request);
    if (request->behind != NULL)
        request->behind->ahead = request->ahead;
    if (request->ahead != NULL)
        request->ahead->behind = request->behind;
    if (request->route->free_state != NULL)
        request->route->free_state(request);
    gate_request_uncount(request);
    if (request->peer != NULL)
        gate_limits_remove_stream(gate, request->peer);
    log_debug("gate", "request finished", LOG_REQUEST(request));
    token_free(&request->token);
    buffer_free(&request->body);
    out_free(&request->out);
    free(request->origin);
    free(request->kept_head);
    free(request);
}
