/* poll.c: GET /v1/poll: returns pending notifications, or waits for new notifications. */
#include "gate/api/poll.h"

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

#define WAIT_S 25
#define WAIT_MAX_S 60
#define LINES 64
#define LINES_MAX 1024
#define TARGET_BYTES (1024 * 1024)   /* size that ends the poll */
#define STORE_GRACE_US (5 * 1000000) /* maximum time after the wait for the store to reply */
/* intervals of the checks for the store's reply, after the wait: first, later */
#define RECHECK_FIRST_S 0.005
#define RECHECK_S 0.02

static struct gate_poll *
poll_of(struct gate_request *request)
{
    return (struct gate_poll *)request->route_state;
}

/* Reads a query argument as an integer, capped at `max`. `fallback` if absent; -1 if invalid. */
static int64_t
read_number(struct gate_request *request, const char *name, int64_t max, int64_t fallback)
{
    char *text = http_head_argument(request->conn->head, name, 8);
    int64_t value = 0;

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
    struct session_request wanted = {.pos = pos, .is_poll = true, .topics = {names, 0}};

    if (wait_s < 0 || max < 1) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "\"wait\" must be 0 or more seconds, \"max\" 1 or more");
        return;
    }
    if (!stream_split_topics(topics, names, &wanted.topics.count)) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_BAD_TOPICS);
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
    gate_request_attach(request, &wanted);
    ev_timer_init(&poll->recheck, on_recheck, (double)wait_s + RECHECK_FIRST_S, RECHECK_S);
    poll->recheck.data = request;
    ev_timer_start(request->gate->loop, &poll->recheck);
}

void
gate_poll_begin(struct gate_request *request)
{
    char *pos = http_head_argument(request->conn->head, "pos=", SESSION_POS_MAX - 1);
    char *topics = http_head_argument(request->conn->head, "topics=", SESSION_TOPICS_BYTES_MAX);

    begin(request, pos, topics);
    free(pos);
    free(topics);
}

static void
finish(struct gate_request *request)
{
    struct gate_poll *poll = poll_of(request);
    struct response response;

    response_init(&response, poll->lines.len > 0 ? 200 : 204, "application/x-ndjson");
    response_header(&response, "Clairon-Pos: %s", poll->pos);
    response.lines.waiting_bytes = poll->lines.waiting_bytes;
    out_move(&response.lines, &poll->lines);
    gate_request_respond(request, &response);
}

static bool
has_prefix(struct bytes line, const char *with)
{
    return line.len >= strlen(with) && memcmp(line.at, with, strlen(with)) == 0;
}

/* `connected` and `ping` are only for streams. */
static bool
is_polled(struct bytes line)
{
    return has_prefix(line, "{\"t\":\"msg\"") || has_prefix(line, "{\"t\":\"gap\"") ||
           has_prefix(line, "{\"t\":\"acked\"");
}

static void
save_pos(struct gate_poll *poll, struct bytes line)
{
    struct bytes pos = stream_line_pos((const char *)line.at, line.len);

    if (pos.at != NULL)
        snprintf(poll->pos, sizeof(poll->pos), "%.*s", (int)pos.len, (const char *)pos.at);
}

static void
add_line(struct gate_poll *poll, struct bytes line, const struct gate_frame *frame)
{
    out_add_shared(&poll->lines, line.at, line.len, frame->owner);
    out_add_shared(&poll->lines, frame->rest.at, frame->rest.len, frame->rest_owner);
    out_add(&poll->lines, "\n", 1);
    save_pos(poll, line);
    poll->line_count += has_prefix(line, "{\"t\":\"msg\"");
    poll->has_lines |= !has_prefix(line, "{\"t\":\"acked\"");
}

/* A frame is accepted as a whole or left for the next poll. */
bool
gate_poll_lines(struct gate_request *request, const struct gate_frame *frame)
{
    struct gate_poll *poll = poll_of(request);
    struct bytes text = frame->text;
    struct bytes line;

    if (poll->line_count >= poll->max || poll->lines.len >= TARGET_BYTES) {
        poll->is_full = true;
        return false;
    }
    while (stream_next_line(&text, &line)) {
        if (is_polled(line))
            add_line(poll, line, frame);
    }
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
    finish(request);
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
        finish(request);
    else if (now_us > poll->deadline_us + STORE_GRACE_US)
        gate_request_no_store(request);
}

void
gate_poll_half_closed(struct gate_request *request)
{
    struct gate_poll *poll = poll_of(request);
    poll->deadline_us = clock_monotonic_us();
    ev_timer_stop(request->gate->loop, &poll->recheck);
    ev_timer_set(&poll->recheck, RECHECK_FIRST_S, RECHECK_S);
    ev_timer_start(request->gate->loop, &poll->recheck);
}

void
gate_poll_end(struct gate_request *request, int code, const char *reason, int64_t in_ms)
{
    (void)code;
    (void)in_ms;
    if (request->state == GATE_REQUEST_OPEN)
        gate_request_problem(request, 503, 0, reason);
}

void
gate_poll_free(struct gate_request *request)
{
    ev_timer_stop(request->gate->loop, &poll_of(request)->recheck);
    out_free(&poll_of(request)->lines);
}
