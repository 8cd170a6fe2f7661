/*
 * http1.c: HTTP/1.1 on a connection: heads, credentials, bodies, timeouts, and the next request.
 *
 * Reading is paused from the end of a request to the end of its response: a client that half-closes
 * (shutdown(2)) may still wait for its response (conn_pause). Bytes of the next request that have
 * arrived are kept.
 *
 * Pipelining: if further requests of a route with is_pipelined have arrived completely, they do not
 * wait for the response, but are handled immediately. The requests of a connection form a list in
 * the order of their responses (`ahead`, `behind`), and conn->owner is the newest. Nothing is read,
 * and no other request begins, until all of them have their response.
 */
#include "gate/http/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/http/auth.h"
#include "gate/net/gate_shared.h"
#include "gate/net/client_limits.h"
#include "wire/codes.h"
#include "wire/http_head.h"

#define LINGER_BYTES_MAX (8 * 1024 * 1024) /* maximum bytes that are discarded after a response */
#define STREAM_BYTES_MAX (64 * 1024)       /* maximum bytes that a client sends on a stream */
#define STORE_TIMEOUT_US (10 * 1000000)    /* maximum wait for a reply of the store */
/* Time limit for writing a response: a minimum, plus its size divided by a rate (bytes/s). */
#define ENDING_TIMEOUT_US (5 * 1000000)
#define ENDING_RATE (32 * 1024)
#define GET_BODY_MAX (64 * 1024)
#define UNSIGNED_BODY_MAX 1024 /* without a token */
#define PIPELINE_MAX 16        /* requests of one connection in progress */

static const struct gate_route NO_ROUTE = {.path = "(no token)"};
static const struct conn_events REQUEST_EVENTS;

static struct gate_request *
begin(struct conn *conn, const struct gate_route *route)
{
    struct gate_request *request;

    if (conn->phase == CONN_REQUEST) {
        request = gate_request_new(conn, route, conn->owner);
        conn->owner = request;
    } else {
        request = gate_request_new(conn, route, NULL);
        conn_enter(conn, CONN_REQUEST, &REQUEST_EVENTS, request);
    }
    return request;
}

void
gate_request_reply(struct conn *conn, struct response *response)
{
    gate_request_respond(begin(conn, &NO_ROUTE), response);
}

static void
head_reject(struct conn *conn, int status, const char *detail)
{
    struct gate_request *request;
    struct response response;

    log_debug("gate", "request rejected", LOG_INT("status", status), LOG_TEXT("detail", detail));
    stats_add(conn->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    free(conn->http->partial);
    conn->http->partial = NULL;
    response_problem(&response, status, 0, detail);
    request = begin(conn, &NO_ROUTE);
    request->is_malformed = true;
    gate_request_respond(request, &response);
}

/* The bytes after the head may be a body, or further requests. */
static void
head_begin(struct conn *conn, const struct http_head *head, unsigned char *rest, size_t rest_len)
{
    free(conn->http->partial);
    conn->http->partial = NULL;
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
 * Parses the head at the start of `bytes`. While it is incomplete, the bytes are kept in
 * conn->http->in, and the state of the parser in conn->http->partial.
 */
static void
head_parse(struct conn *conn, unsigned char *bytes, size_t len)
{
    const bool is_kept = (char *)bytes == conn->http->in.bytes;
    struct http_head head = {0};
    struct buffer kept;
    const char *why = "";
    enum rc rc;

    if (conn->http->partial != NULL)
        head = *conn->http->partial;
    rc = http_head_parse(&head, (const char *)bytes, len, GATE_HEAD_BYTES_MAX, &why);
    if (rc == RC_AGAIN) {
        if (conn->http->partial == NULL)
            conn->http->partial = memory_new(sizeof(head));
        *conn->http->partial = head;
        if (!is_kept)
            conn_keep_bytes(conn, bytes, len);
        return;
    }
    kept = conn->http->in; /* `bytes` must outlive the callbacks, which keep other bytes */
    if (is_kept)
        buffer_init(&conn->http->in, kept.limit);
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
    if (conn->http->in.len > 0) {
        conn_keep_bytes(conn, bytes, len);
        bytes = (unsigned char *)conn->http->in.bytes;
        len = conn->http->in.len;
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
    (void)conn; /* no request has begun */
}

const struct conn_events GATE_HEAD_EVENTS = {
    .on_bytes = on_head_bytes, .on_writable = on_head_writable, .on_closed = on_head_closed};

static void
head_next(struct conn *conn)
{
    conn_enter(conn, conn->http->in.len == 0 ? CONN_KEPT : CONN_HEAD, &GATE_HEAD_EVENTS, NULL);
    if (conn->http->in.len > 0)
        head_parse(conn, (unsigned char *)conn->http->in.bytes, conn->http->in.len);
    else
        gate_limit_kept(conn->gate);
    if (conn->events == &GATE_HEAD_EVENTS)
        conn_resume(conn);
}

static const char NO_PUBLISH[] = "token lacks the claim \"publish\": true";
static const char NO_ADMIN[] = "token lacks the claim \"admin\": true";

/* Returns the missing claim; NULL: none. */
static const char *
missing_claim(const struct gate_request *request)
{
    const struct token *token = &request->token;

    switch (request->route->claim) {
    case GATE_CLAIM_NONE:
        return NULL;
    case GATE_CLAIM_PUBLISH:
        return token->publish ? NULL : NO_PUBLISH;
    case GATE_CLAIM_ADMIN:
        return token->admin ? NULL : NO_ADMIN;
    case GATE_CLAIM_ADMIN_AND_PUBLISH:
        return !token->admin ? NO_ADMIN : (!token->publish ? NO_PUBLISH : NULL);
    case GATE_CLAIM_PUBLISH_OR_ADMIN:
        break;
    }
    return token->publish || token->admin ? NULL : NO_PUBLISH;
}

/*
 * Checks the limits and the cut-offs again, because they may have changed while a ticket was
 * redeemed, or the body received.
 */
static void
handle(struct gate_request *request)
{
    struct gate *gate = request->gate;
    const struct gate_route *route = request->route;
    struct gate_rejection rejection;
    const char *missing = missing_claim(request);

    if (route->is_stream && !gate_serves(gate, route->accepts_ticket, &rejection)) {
        gate_request_reject(request, &rejection);
        return;
    }
    if (route->is_stream && !gate_admits_user(gate, request->token.user)) {
        gate_request_problem(request, 429, GATE_ERR_RATE, "per-user connection limit reached");
        return;
    }
    if (gate_token_is_cut_off(gate, &request->token))
        missing = GATE_CUT_OFF;
    if (missing != NULL)
        gate_request_problem(request, 403, GATE_ERR_PERMISSION, missing);
    else
        route->handle(request);
}

static void
reject_token(struct gate_request *request, enum rc rc, const char *error)
{
    static const struct gate_rejection no_keys = {503, 0, "Retry-After: 5", TOKEN_NO_KEYS};

    if (rc == RC_LIMIT) {
        gate_request_problem(request, 403, GATE_ERR_PERMISSION, error);
        return;
    }
    gate_log_rejected_token(request->gate, request->route->path, error);
    if (rc == RC_AGAIN)
        gate_request_reject(request, &no_keys);
    else
        gate_request_problem(request, 401,
                             rc == RC_CLOSED ? GATE_ERR_EXPIRED : GATE_ERR_UNAUTHORISED, error);
}

static void
on_token_redeemed(void *owner, enum rc rc, struct token *token, const char *error)
{
    struct gate_request *request = owner;

    request->redeem = NULL;
    if (request->state != GATE_REQUEST_WAITING)
        return; /* the request has timed out and has a response */
    if (rc == RC_OK) {
        request->token = *token;
        *token = (struct token){0};
        handle(request);
    } else if (rc == RC_IO) {
        gate_request_problem(request, 503, 0, error);
    } else {
        reject_token(request, rc, error);
    }
}

/* A request whose body is being received is handled at its end. */
static void
use_token(struct gate_request *request)
{
    const struct gate_rejection too_many = {429, GATE_ERR_RATE, GATE_RETRY_SOON,
                                            GATE_RATE_EXCEEDED};

    if (!gate_admits_user_request(request->conn, request->token.user)) {
        log_debug("gate", "request rejected: gate.request_rate exceeded", LOG_REQUEST(request));
        conn_pause(request->conn);
        gate_request_reject(request, &too_many);
    } else if (request->route->body_max == 0 || request->state == GATE_REQUEST_WAITING) {
        handle(request);
    }
}

/* The keys of the token's issuer were fetched, or could not be. */
static void
on_token_verified(void *owner, enum rc rc, struct token *token, const char *error)
{
    struct gate_request *request = owner;
    struct conn *conn = request->conn;
    struct http_head *head = request->kept_head;

    request->redeem = NULL;
    if (request->state != GATE_REQUEST_WAITING && request->state != GATE_REQUEST_READING)
        return; /* the request has timed out and has a response */
    if (rc != RC_OK) {
        conn_pause(conn); /* the body may be incomplete */
        reject_token(request, rc, error);
        return;
    }
    request->token = *token;
    *token = (struct token){0};
    request->kept_head = NULL;
    conn->head = head;  /* the rate limits and some handlers read it */
    use_token(request); /* may free the request, but not its connection */
    conn->head = NULL;
    free(head);
}

/* Copies a head, which the caller frees. */
static struct http_head *
head_copy(const struct http_head *head)
{
    struct http_head *copy = memory_new(sizeof(*copy) + head->len);

    *copy = *head;
    copy->bytes = memcpy(copy + 1, head->bytes, head->len);
    return copy;
}

static void
use_bearer(struct gate_request *request, const char *bearer)
{
    char error[TOKEN_ERROR_MAX];
    enum rc rc = gate_token_verify(request->gate, bearer, strlen(bearer), &request->token, error);

    if (rc == RC_AGAIN)
        request->redeem =
            gate_token_wait(request->gate, bearer, strlen(bearer), on_token_verified, request);
    if (request->redeem == NULL && rc == RC_OK) {
        use_token(request);
    } else if (request->redeem == NULL) {
        reject_token(request, rc, error);
    } else {
        request->kept_head = head_copy(request->conn->head);
        if (request->route->body_max == 0)
            gate_request_set_state(request, GATE_REQUEST_WAITING);
    }
}

/*
 * Verifies the token, or requests the token of a ticket from the store. If it is missing or
 * invalid, queues a response. A request without a body is handled as soon as its token is verified.
 */
static void
authenticate(struct gate_request *request)
{
    char *bearer, *ticket;

    if (request->route->has_credentials)
        return;
    bearer = gate_request_bearer(request->conn->head);
    ticket = request->route->accepts_ticket ? gate_request_ticket(request->conn->head) : NULL;

    if (bearer != NULL && ticket != NULL) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_TWO_CREDENTIALS);
    } else if (bearer != NULL) {
        use_bearer(request, bearer);
    } else if (ticket != NULL) {
        /* not charged to the user's rate: the request for the ticket was */
        gate_request_set_state(request, GATE_REQUEST_WAITING);
        request->redeem = gate_ticket_redeem(request->gate, ticket, on_token_redeemed, request);
        if (request->redeem == NULL)
            gate_request_no_store(request);
    } else if (!request->route->token_optional || request->gate->web_push == NULL ||
               !request->conn->head->has_length ||
               request->conn->head->content_length > UNSIGNED_BODY_MAX) {
        gate_request_problem(request, 401, 0, GATE_NO_TOKEN);
    }
    free(bearer);
    free(ticket);
}

/* Rejects a body over the route's limit. */
static void
check_body(struct gate_request *request)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct http_head *head = request->conn->head;

    if (!head->has_length && !head->is_chunked) {
        if (!request->route->body_optional)
            gate_request_problem(request, 411, 0, "Content-Length or chunked body required");
    } else if (head->content_length > (int64_t)request->route->body_max) {
        gate_request_body_too_large(request);
    } else if (gate_body_is_unread(request) && head->is_1_1 &&
               http_head_is(head, "expect", "100-continue")) {
        /* RFC 9110, 10.1.1: the client waits before it sends the body. */
        if (conn_write(request->conn, CONTINUE, strlen(CONTINUE)) != (ssize_t)strlen(CONTINUE))
            conn_close(request->conn);
    }
}

static void
handle_complete(struct gate_request *request)
{
    conn_pause(request->conn);
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    if (request->redeem == NULL) /* otherwise on_token_verified does */
        handle(request);
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
            gate_request_add_body(request, (const char *)data.at, data.len);
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

static void
linger(struct gate_request *request)
{
    struct conn *conn = request->conn;
    struct buffer kept = conn->http->in;

    buffer_init(&conn->http->in, kept.limit);
    if (request->is_malformed || !gate_body_is_unread(request)) {
        if (!conn_half_close(conn))
            conn_close(conn);
    }
    discard(request, kept.bytes, kept.len);
    buffer_free(&kept);
    conn_resume(conn);
}

/* Whether the head is of a request that may begin while `request` is in progress. */
static bool
may_follow(const struct gate_request *request, const struct http_head *head)
{
    const char *path = request->route->path;

    return !request->is_last && head->method == HTTP_POST && head->has_length &&
           !http_head_has(head, "expect") && !head->offers_websocket &&
           head->target_len == strlen(path) &&
           memcmp(head->bytes + head->target, path, head->target_len) == 0;
}

/* Begins the next request if all of it has arrived. False: it must wait for the response. */
static bool
begin_next(struct conn *conn)
{
    struct gate_request *request = conn->owner;
    struct buffer kept = conn->http->in;
    struct http_head head = {0};
    const char *why;

    if (conn->phase != CONN_REQUEST || !request->route->is_pipelined || kept.len == 0 ||
        request->state == GATE_REQUEST_READING || gate_requests_are_many(conn->gate) ||
        http_head_parse(&head, kept.bytes, kept.len, GATE_HEAD_BYTES_MAX, &why) != RC_OK ||
        !may_follow(request, &head) || head.content_length > (int64_t)(kept.len - head.len))
        return false;
    buffer_init(&conn->http->in, kept.limit);
    conn->head = &head;
    conn->gate->serve(conn);
    conn->head = NULL;
    request = conn->owner;
    if (request->state == GATE_REQUEST_READING)
        read_body(request, kept.bytes + head.len, kept.len - head.len);
    else
        conn_keep_bytes(conn, kept.bytes + head.len, kept.len - head.len);
    buffer_free(&kept);
    return true;
}

static void
begin_pipelined(struct conn *conn)
{
    for (int count = 1; count < PIPELINE_MAX && begin_next(conn); count++)
        ;
}

static void
on_request_bytes(struct conn *conn, unsigned char *bytes, size_t len)
{
    struct gate_request *request = conn->owner;

    switch (request->state) {
    case GATE_REQUEST_READING:
        read_body(request, (const char *)bytes, len);
        begin_pipelined(conn);
        break;
    case GATE_REQUEST_LINGERING:
        discard(request, (const char *)bytes, len);
        break;
    case GATE_REQUEST_OPEN:
        if (request->route->ends_on_half_close) {
            request->discarded += len;
            if (request->discarded > STREAM_BYTES_MAX)
                conn_close(conn);
            break;
        }
        /* fallthrough */
    case GATE_REQUEST_WAITING:
    case GATE_REQUEST_ENDING:
        conn_keep_bytes(conn, bytes, len);
        break;
    }
}

/* Returns the request whose response is the next one. */
static struct gate_request *
oldest(const struct conn *conn)
{
    struct gate_request *request = conn->owner;

    while (request->ahead != NULL)
        request = request->ahead;
    return request;
}

/*
 * Writes the responses that precede the one of the newest request. Small ones are written together.
 * NULL: one of them must wait for the store, or for the socket; otherwise the newest request.
 */
static struct gate_request *
write_earlier(struct conn *conn)
{
    struct gate_request *request = oldest(conn), *next;

    while ((next = request->behind) != NULL) {
        if (request->state != GATE_REQUEST_ENDING)
            return NULL;
        if (next->state != GATE_REQUEST_ENDING && !gate_request_write(request))
            return NULL;
        out_move(&request->out, &next->out);
        next->out = request->out;
        request->out = (struct out){.waiting_bytes = next->out.waiting_bytes};
        if (next->state == GATE_REQUEST_ENDING)
            next->since_us = clock_monotonic_us();
        conn->http->requests++;
        gate_request_free(request);
        request = next;
    }
    return request;
}

/*
 * After the response: the connection serves the next request, or ends. It lingers if the client may
 * still be sending, so that the client can read the response.
 */
static void
on_request_writable(struct conn *conn)
{
    struct gate_request *request = write_earlier(conn);

    if (request == NULL || request->state == GATE_REQUEST_LINGERING ||
        !gate_request_write(request) || conn->phase == CONN_CLOSING)
        return;
    if (!request->is_last) {
        conn->http->requests++;
        gate_request_free(request);
        head_next(conn);
    } else if (gate_body_is_unread(request) || conn_has_unread(conn)) {
        gate_request_set_state(request, GATE_REQUEST_LINGERING);
        gate_request_uncount(request);
        conn_enter(conn, CONN_LINGERING, &REQUEST_EVENTS, request);
        linger(request);
    } else {
        conn_close(conn);
    }
}

static void
on_request_closed(struct conn *conn)
{
    struct gate_request *request = conn->owner, *ahead;

    for (; request != NULL; request = ahead) {
        ahead = request->ahead;
        gate_request_free(request);
    }
}

static const struct conn_events REQUEST_EVENTS = {.on_bytes = on_request_bytes,
                                                  .on_writable = on_request_writable,
                                                  .on_closed = on_request_closed};

/* Performs the checks that precede token verification. False: *ret is the reason. */
static bool
admits(struct conn *conn, const struct gate_route *route, bool is_foreign,
       struct gate_rejection *ret)
{
    if (!gate_admits_request(conn))
        *ret = (struct gate_rejection){429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED};
    else if (is_foreign)
        *ret = (struct gate_rejection){403, 0, NULL, GATE_ORIGIN_NOT_ALLOWED};
    else if (route->body_max == 0 && conn->head->content_length > GET_BODY_MAX)
        *ret = (struct gate_rejection){413, 0, NULL, "GET body exceeds 64 kB"};
    else if (!route->is_stream || gate_admits(conn, route->accepts_ticket, ret))
        return true;
    else
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

    request = begin(conn, route);
    request->origin = origin;
    snprintf(request->id, sizeof(request->id), "%s", id);
    if (route->is_stream && is_admitted)
        request->peer = gate_limits_add_stream(conn);
    if (is_admitted && route->read_headers != NULL)
        route->read_headers(request);
    if (is_admitted)
        authenticate(request);
    else
        gate_request_reject(request, &rejection);
    if (!route->is_stream && request->state != GATE_REQUEST_ENDING && gate_request_admit(request) &&
        request->state == GATE_REQUEST_READING)
        check_body(request);
    if (request->state == GATE_REQUEST_READING && gate_body_is_unread(request)) {
        if (request->ahead == NULL) /* otherwise the body has arrived */
            conn_resume(conn);
    } else if (request->state == GATE_REQUEST_READING)
        handle_complete(request);
    else if (request->state != GATE_REQUEST_OPEN || !route->ends_on_half_close)
        conn_pause(conn);
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
        /*
         * A client that half-closes still receives a response. But a poll does not wait for
         * notifications of a client that may have disconnected.
         */
        if (request->state == GATE_REQUEST_OPEN && request->route->on_half_closed != NULL &&
            !request->half_closed && conn_is_half_closed(request->conn)) {
            request->half_closed = true;
            request->route->on_half_closed(request);
        }
        break;
    case GATE_REQUEST_ENDING:
        if (request->ahead == NULL &&
            age_us > ENDING_TIMEOUT_US + (int64_t)request->response_len * 1000000 / ENDING_RATE)
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
        if (conn->http->in.len == 0)
            conn_close(conn); /* without a request, close without a response */
        else
            head_reject(conn, 408, "timeout waiting for the request header");
    }
}
