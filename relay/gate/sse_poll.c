/*
 * sse_poll.c: a session over HTTP: GET /v1/sse, server-sent events; and GET /v1/poll, which returns
 * pending notifications, or waits for new notifications.
 */
#include "gate/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "wire/client_message.h"
#include "wire/http_head.h"

#define BAD_TOPICS "\"topics\" must be a comma-separated list, with * only at the end of a name"

#define BAD_LISTS                                                                                  \
    "\"rows\" must be a comma-separated list of up to 32 sources, or sources with /rule"
#define UNKNOWN_POS "?" /* the cursor of no notification: a gap is announced */
#define LISTS_BYTES_MAX 4096
#define RETRY_MS 2000
#define OUT_TARGET_BYTES (256 * 1024)
#define WAIT_S 25
#define WAIT_MAX_S 60
#define LINES 64
#define LINES_MAX 1024
#define TARGET_BYTES (1024 * 1024)   /* size that ends the poll */
#define STORE_GRACE_US (5 * 1000000) /* maximum time after the wait for the store to reply */
/* intervals of the checks for the store's reply, after the wait: first, later */
#define RECHECK_FIRST_S 0.005
#define RECHECK_S 0.02

/* A live list of the client. */
struct stream_list {
    const char *source;
    const char *rule;
};

static bool
on_session_line(void *socket, const struct session_line *line)
{
    struct gate_request *request = socket;

    if (request->state != GATE_REQUEST_OPEN)
        return false;
    if (request->unwritable_us == 0) /* otherwise it is wanted already */
        gate_request_want_write(request);
    return request->route->on_line(request, line);
}

static void
on_session_close(void *socket, int code, const char *reason, int64_t in_ms)
{
    struct gate_request *request = socket;

    if (request->state == GATE_REQUEST_OPEN)
        request->route->on_end(request, code, reason, in_ms);
}

static const struct session_transport TRANSPORT = {
    .send_line = on_session_line,
    .close = on_session_close,
};

/* Attaches a session of the token's user. Its lines are passed to the route. */
static void
attach(struct gate_request *request, struct session_request *wanted)
{
    const struct token *token = &request->token;
    struct session_group *groups = gate_groups_of(token);

    wanted->user = token->user;
    wanted->groups = groups;
    wanted->group_count = token->group_count;
    wanted->expires_s = token->expires_s;
    gate_request_set_state(request, GATE_REQUEST_OPEN);
    request->session = hub_attach(request->gate->hub, wanted, &TRANSPORT, request);
    free(groups);
    snprintf(request->conn_id, sizeof(request->conn_id), "%s", session_conn(request->session));
    log_debug("gate", "stream opened", LOG_REQUEST(request));
}

/* Splits a comma-separated list in place (NULL: no topics). False: invalid topic. */
static bool
split_topics(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count)
{
    size_t count = 0;

    for (char *rest = list, *name; rest != NULL;) {
        size_t len;

        name = strsep(&rest, ",");
        len = strlen(name);
        if (len == 0 || len > CLIENT_MESSAGE_TOPIC_MAX || strcspn(name, "*") + 1 < len ||
            count == SESSION_TOPICS_MAX)
            return false;
        names[count++] = name;
    }
    *ret_count = count;
    return true;
}

static bool
is_list_name(const char *name, size_t max)
{
    size_t len = strlen(name);
    size_t valid_len = 0;

    return len > 0 && len <= max && utf8_is_prefix(name, len, &valid_len) && valid_len == len;
}

/* Like split_topics, for a list of "source" or "source/rule" (NULL: no lists). */
static bool
split_lists(char *list, struct stream_list lists[SESSION_UNVERIFIED_LISTS_MAX], size_t *ret_count)
{
    size_t count = 0;

    for (char *rest = list; rest != NULL; count++) {
        char *rule = strsep(&rest, ",");
        const char *source = strsep(&rule, "/");

        if (rule == NULL)
            rule = "default";
        if (count == SESSION_UNVERIFIED_LISTS_MAX ||
            !is_list_name(source, CLIENT_MESSAGE_SOURCE_MAX) ||
            !is_list_name(rule, CLIENT_MESSAGE_RULE_MAX))
            return false;
        lists[count] = (struct stream_list){source, rule};
    }
    *ret_count = count;
    return true;
}

static bool
wants_ends(const struct gate_request *request)
{
    char *text = NULL;
    const bool is_wanted = http_head_argument(request->conn->head, "ends=", 1, &text) == RC_OK &&
                           text != NULL && strcmp(text, "1") == 0;

    free(text);
    return is_wanted;
}

/* Reads the cursor in the query. */
static char *
read_pos(const struct gate_request *request)
{
    char *pos = NULL;

    return http_head_argument(request->conn->head, "pos=", SESSION_POS_MAX - 1, &pos) == RC_OK
               ? pos
               : memory_text(UNKNOWN_POS, strlen(UNKNOWN_POS));
}

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

/* Limits `out`; the session keeps the remaining lines. */
bool
gate_sse_line(struct gate_request *request, const struct session_line *line)
{
    struct out *out = &request->out;

    if (out->len >= OUT_TARGET_BYTES)
        return false;
    out_add(out, "data: ", 6);
    out_add_shared(out, line->text.at, line->text.len, line->owner);
    out_add_shared(out, line->rest.at, line->rest.len, line->rest_owner);
    if (line->pos.len > 0) {
        out_add(out, "\nid: ", 5);
        out_add(out, line->pos.at, line->pos.len);
    }
    out_add(out, "\n\n", 2);
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
                   "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: text/event-stream\r\n"
                   "Cache-Control: no-store, no-transform\r\nX-Accel-Buffering: no\r\n%s"
                   "Connection: close\r\n\r\nretry: %d\n\n",
                   clock_http_date(clock_wall_us()),
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
    const struct http_head *head = request->conn->head;

    if (http_head_text(head, "last-event-id", SESSION_POS_MAX - 1, &sse->pos) != RC_OK)
        sse->pos = memory_text(UNKNOWN_POS, strlen(UNKNOWN_POS));
    else if (sse->pos == NULL)
        sse->pos = read_pos(request);
    if (http_head_argument(head, "topics=", SESSION_TOPICS_BYTES_MAX, &sse->topics) != RC_OK)
        sse->problem = BAD_TOPICS;
    if (http_head_argument(head, "rows=", LISTS_BYTES_MAX, &sse->lists) != RC_OK)
        sse->problem = BAD_LISTS;
    sse->wants_ends = wants_ends(request);
}

void
gate_sse_begin(struct gate_request *request)
{
    struct gate_sse *sse = sse_of(request);
    const char *names[SESSION_TOPICS_MAX];
    struct session_request wanted = {
        .pos = sse->pos, .topics = {names, 0}, .wants_ends = sse->wants_ends};
    struct stream_list lists[SESSION_UNVERIFIED_LISTS_MAX];
    size_t list_count = 0;
    const struct config *config = request->gate->config;

    if (!split_topics(sse->topics, names, &wanted.topics.count))
        sse->problem = BAD_TOPICS;
    if (!split_lists(sse->lists, lists, &list_count))
        sse->problem = BAD_LISTS;
    if (sse->problem != NULL) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, sse->problem);
        return;
    }
    sse->ping_due_us = clock_monotonic_us() + config->gate.ping_ms * 1000;
    gate_expiry_begin(&sse->expiry, config, request->token.expires_s);
    /* SSE has no pong, so only TCP can detect a dead client. */
    conn_set_ack_timeout(request->conn, config->gate.ping_ms + config->gate.pong_timeout_ms);
    attach(request, &wanted);
    buffer_free(&request->conn->http->in); /* a stream is the last request */
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

void
gate_sse_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us)
{
    const struct config *config = request->gate->config;
    struct gate_sse *sse = sse_of(request);
    char line[GATE_EXPIRING_MAX];
    int len;

    if (session_slow(request->session, now_us) != NULL ||
        (request->unwritable_us != 0 &&
         now_us - request->unwritable_us > config->gate.slow_age_ms * 1000)) {
        conn_close(request->conn); /* a bye would not arrive */
        return;
    }
    len = gate_expiry_check(&sse->expiry, config, wall_us, line);
    if (len < 0)
        gate_sse_end(request, GATE_CLOSE_EXPIRED, "token expired", -1);
    else if (len > 0)
        send_line(request, line, (size_t)len);
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

static struct gate_poll *
poll_of(struct gate_request *request)
{
    return (struct gate_poll *)request->route_state;
}

/* Reads a query argument as an integer, capped at `max`. `fallback` if absent; -1 if invalid. */
static int64_t
read_number(struct gate_request *request, const char *name, int64_t max, int64_t fallback)
{
    char *text = NULL;
    int64_t value = 0;

    if (http_head_argument(request->conn->head, name, 8, &text) != RC_OK)
        return -1;
    if (text == NULL)
        return fallback;
    for (const char *at = text; *at != '\0'; at++)
        value = *at >= '0' && *at <= '9' && value >= 0 ? value * 10 + (*at - '0') : -1;
    if (text[0] == '\0')
        value = -1;
    free(text);
    return value <= max ? value : max;
}

/* The sweep is up to a second late, which is too late for a poll that does not wait. */
static void
on_recheck(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate_request *request = timer->data;

    (void)events;
    if (request->state == GATE_REQUEST_OPEN)
        gate_poll_sweep(request, clock_monotonic_us(), clock_wall_us());
    if (request->state != GATE_REQUEST_OPEN)
        ev_timer_stop(loop, timer);
}

static void
begin(struct gate_request *request, const char *pos, char *topics)
{
    struct gate_poll *poll = poll_of(request);
    const struct config *config = request->gate->config;
    int64_t wait_s = read_number(request, "wait=", WAIT_MAX_S, WAIT_S);
    int64_t max = read_number(request, "max=", LINES_MAX, LINES);
    const char *names[SESSION_TOPICS_MAX];
    struct session_request wanted = {
        .pos = pos, .is_poll = true, .topics = {names, 0}, .wants_ends = wants_ends(request)};

    if (wait_s < 0 || max < 1) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "\"wait\" must be 0 or more seconds, \"max\" 1 or more");
        return;
    }
    if (!split_topics(topics, names, &wanted.topics.count)) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, BAD_TOPICS);
        return;
    }
    /*
     * The in-flight window must not exceed the response: notifications in flight count as
     * delivered.
     */
    poll->max = max < config->delivery.window ? (int)max : config->delivery.window;
    wanted.window = poll->max;
    poll->deadline_us = clock_monotonic_us() + wait_s * 1000000;
    poll->lines.waiting_bytes = request->out.waiting_bytes;
    attach(request, &wanted);
    ev_timer_init(&poll->recheck, on_recheck, (double)wait_s + RECHECK_FIRST_S, RECHECK_S);
    poll->recheck.data = request;
    ev_timer_start(request->gate->loop, &poll->recheck);
}

void
gate_poll_begin(struct gate_request *request)
{
    char *pos = read_pos(request), *topics = NULL;

    if (http_head_argument(request->conn->head, "topics=", SESSION_TOPICS_BYTES_MAX, &topics) ==
        RC_OK)
        begin(request, pos, topics);
    else
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, BAD_TOPICS);
    free(pos);
    free(topics);
}

static void
finish_poll(struct gate_request *request)
{
    struct gate_poll *poll = poll_of(request);
    struct response response;

    response_init(&response, poll->lines.len > 0 ? 200 : 204, "application/x-ndjson");
    response_header(&response, "Clairon-Pos: %s", poll->pos);
    response.lines.waiting_bytes = poll->lines.waiting_bytes;
    out_move(&response.lines, &poll->lines);
    gate_request_respond(request, &response);
}

/* Control lines, as `connected`, are only for streams. */
bool
gate_poll_line(struct gate_request *request, const struct session_line *line)
{
    struct gate_poll *poll = poll_of(request);

    if (poll->line_count >= poll->max || poll->lines.len >= TARGET_BYTES) {
        poll->is_full = true;
        return false;
    }
    if (line->kind == SESSION_LINE_CONTROL)
        return true;
    out_add_shared(&poll->lines, line->text.at, line->text.len, line->owner);
    out_add_shared(&poll->lines, line->rest.at, line->rest.len, line->rest_owner);
    out_add(&poll->lines, "\n", 1);
    if (line->pos.len > 0)
        snprintf(poll->pos, sizeof(poll->pos), "%.*s", (int)line->pos.len,
                 (const char *)line->pos.at);
    poll->line_count += line->kind == SESSION_LINE_NOTIFICATION;
    poll->has_lines |= line->kind != SESSION_LINE_ACKED;
    return true;
}

/* Called one iteration after the first line, so that the response contains the whole batch. */
void
gate_poll_writable(struct gate_request *request)
{
    struct gate_poll *poll = poll_of(request);
    if (!poll->has_lines)
        return;
    /* All notifications were sent: the cursor may advance past the last line. */
    if (!poll->is_full)
        (void)session_pos(request->session, poll->pos);
    finish_poll(request);
}

void
gate_poll_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us)
{
    struct gate_poll *poll = poll_of(request);
    const struct config *config = request->gate->config;
    int64_t expires_us = request->token.expires_s * 1000000 + config->auth.leeway_ms * 1000;

    if (now_us < poll->deadline_us && wall_us < expires_us)
        return;
    if (session_pos(request->session, poll->pos))
        finish_poll(request);
    else if (now_us > poll->deadline_us + STORE_GRACE_US)
        gate_request_no_store(request);
}

void
gate_poll_end_wait(struct gate_request *request)
{
    struct gate_poll *poll = poll_of(request);
    int64_t now_us = clock_monotonic_us();

    if (poll->deadline_us <= now_us)
        return;
    poll->deadline_us = now_us;
    ev_timer_stop(request->gate->loop, &poll->recheck);
    ev_timer_set(&poll->recheck, RECHECK_FIRST_S, RECHECK_S);
    ev_timer_start(request->gate->loop, &poll->recheck);
}

void
gate_poll_end(struct gate_request *request, int code, const char *reason, int64_t in_ms)
{
    (void)in_ms;
    if (request->state != GATE_REQUEST_OPEN)
        return;
    if (code == GATE_CLOSE_BANNED) {
        gate_request_problem(request, 403, GATE_ERR_PERMISSION, reason);
        return;
    }
    if (request->gate->state != GATE_DRAINING) {
        gate_request_problem(request, 503, 0, reason);
        return;
    }
    /* The client has no error, and continues at another relay. */
    gate_poll_end_wait(request);
    gate_poll_sweep(request, clock_monotonic_us(), clock_wall_us());
}

void
gate_poll_free(struct gate_request *request)
{
    ev_timer_stop(request->gate->loop, &poll_of(request)->recheck);
    out_free(&poll_of(request)->lines);
}
