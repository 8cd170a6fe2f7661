/* request.c: an HTTP request that is not answered at once: its token, its body, its end. */
#include "gate/gate_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "hub/hub.h"
#include "wire/ws_frame.h"

#define ASKING_MAX_US (10 * 1000000) /* for the store */
#define ENDING_MAX_US (5 * 1000000)  /* for the socket to take the answer .. */
#define ENDING_RATE (32 * 1024)      /* .. and as long as a slow line takes: bytes a second */

void
gate_request_set_state(struct gate_request *request, enum gate_request_state state)
{
    request->state = state;
    request->since_us = clock_monotonic_us();
}

void
gate_request_answer(struct gate_request *request, struct gate_answer *answer)
{
    gate_answer_allow(answer, request->origin);
    buffer_free(&request->out);
    if (gate_answer_build(answer, &request->out) != RC_OK) {
        log_error(request->who, "an answer does not fit its buffer");
        gate_request_kill(request);
    }
    gate_request_set_state(request, GATE_REQUEST_ENDING);
    gate_request_want_write(request);
}

void
gate_request_problem(struct gate_request *request, int status, int code, const char *sentence)
{
    struct gate_answer answer;

    gate_answer_problem(&answer, status, code, sentence);
    if (status == 503 || status == 429 || status == 409)
        gate_answer_header(&answer, "Retry-After: %d", GATE_RETRY_AFTER_S);
    log_debug(request->who, "%s answers %d: %s", request->route->path, status, sentence);
    gate_request_answer(request, &answer);
}

void
gate_request_answer_whole(struct gate_request *request, struct gate_answer *answer, enum rc written)
{
    if (written == RC_OK) {
        gate_request_answer(request, answer);
        return;
    }
    buffer_free(&answer->headers);
    buffer_free(&answer->body);
    gate_request_problem(request, 500, 0, "the answer is too large");
}

/* Hands on the lines of whole frames; how many bytes of frames were taken. */
static size_t
take_frames(struct gate_request *request, const unsigned char *at, size_t len, bool *ret_takes_more)
{
    const unsigned char *end = at + len;
    size_t taken = 0;

    while (at < end && *ret_takes_more) {
        size_t frame_len = ws_frame_len(at);
        size_t head_len = ws_frame_head_len(at);

        *ret_takes_more =
            request->route->on_lines(request, (const char *)at + head_len, frame_len - head_len);
        if (*ret_takes_more)
            taken += frame_len;
        at += frame_len;
    }
    return taken;
}

static enum rc
on_session_send(void *socket, const struct iovec *pieces, int count, size_t *ret_taken)
{
    struct gate_request *request = socket;
    bool takes_more = request->state == GATE_REQUEST_OPEN;
    size_t taken = 0;

    for (int i = 0; i < count && takes_more; i++)
        taken += take_frames(request, pieces[i].iov_base, pieces[i].iov_len, &takes_more);
    *ret_taken = taken;
    if (request->state == GATE_REQUEST_OPEN)
        gate_request_want_write(request);
    return takes_more ? RC_OK : RC_AGAIN;
}

static void
on_session_close(void *socket, int code, const char *reason)
{
    struct gate_request *request = socket;

    if (request->state == GATE_REQUEST_OPEN)
        request->route->end(request, code, reason, -1);
}

static const struct session_transport TRANSPORT = {
    .send = on_session_send,
    .close = on_session_close,
};

void
gate_request_attach(struct gate_request *request, struct session_request *wanted)
{
    const struct token *token = &request->token;
    struct session_group *groups = gate_groups_of(token);
    const char *who;

    wanted->user = token->user;
    wanted->groups = groups;
    wanted->group_count = token->group_count;
    wanted->expires_s = token->expires_s;
    gate_request_set_state(request, GATE_REQUEST_OPEN);
    request->session = hub_attach(request->gate->hub, wanted, &TRANSPORT, request);
    free(groups);
    who = session_name(request->session);
    free(request->who);
    request->who = memory_text(who, strlen(who));
    log_debug(request->who, "began %s", request->route->path);
}

static void
refuse(struct gate_request *request, const struct gate_refusal *refusal)
{
    struct gate_answer answer;

    gate_answer_problem(&answer, refusal->status, 0, refusal->sentence);
    if (refusal->retry_after != NULL)
        gate_answer_header(&answer, "%s", refusal->retry_after);
    gate_request_answer(request, &answer);
}

/* The token is good; it may have taken a while to hear so of a ticket's. */
static void
proceed(struct gate_request *request)
{
    struct gate *gate = request->gate;
    const struct gate_route *route = request->route;
    struct gate_refusal refusal;

    if (route->is_stream && !gate_serves(gate, route->takes_ticket, &refusal)) {
        refuse(request, &refusal);
        return;
    }
    if (route->is_stream && !gate_admits_user(gate, request->token.user)) {
        gate_request_problem(request, 429, GATE_ERR_RATE,
                             "this user has as many connections as it may have");
        return;
    }
    route->act(request);
}

static void
refuse_token(struct gate_request *request, enum rc rc, const char *error)
{
    gate_refused_token(request->gate, request->route->path, error);
    gate_request_problem(request, 401, rc == RC_CLOSED ? GATE_ERR_EXPIRED : GATE_ERR_UNAUTHORISED,
                         error);
}

static void
on_redeemed(void *owner, enum rc rc, struct token *token, const char *error)
{
    struct gate_request *request = owner;

    request->redeem = NULL;
    if (rc == RC_OK) {
        request->token = *token;
        *token = (struct token){0};
        proceed(request);
    } else if (rc == RC_IO) {
        gate_request_problem(request, 503, 0, error);
    } else {
        refuse_token(request, rc, error);
    }
}

static void
refuse_haste(struct gate_request *request)
{
    struct gate_answer answer;

    gate_answer_problem(&answer, 429, GATE_ERR_RATE, GATE_TOO_FAST);
    gate_answer_header(&answer, "%s", GATE_SOON);
    log_debug(request->who, "\"%s\": more than request_rate requests a second",
              request->token.user);
    gate_request_answer(request, &answer);
}

static void
use_bearer(struct gate_request *request, const char *bearer)
{
    char error[TOKEN_ERROR_MAX];
    enum rc rc = token_verify(&request->gate->rules, bearer, strlen(bearer),
                              clock_wall_us() / 1000000, &request->token, error);

    if (rc != RC_OK)
        refuse_token(request, rc, error);
    else if (!gate_admits_request_of(request->gate, request->wsi, request->token.user))
        refuse_haste(request);
    else if (!request->route->is_post)
        proceed(request);
}

/* Its user's request was the one for the ticket. */
static void
use_ticket(struct gate_request *request, const char *ticket)
{
    gate_request_set_state(request, GATE_REQUEST_ASKING);
    request->redeem = gate_ticket_redeem(request->gate, ticket, on_redeemed, request);
    if (request->redeem == NULL)
        gate_request_no_store(request);
}

static void
authorise(struct gate_request *request)
{
    char *bearer = gate_http_bearer(request->wsi);
    char *ticket = request->route->takes_ticket
                       ? gate_http_argument(request->wsi, "ticket=", GATE_TICKET_MAX)
                       : NULL;

    if (bearer != NULL && ticket != NULL)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_TWO_PROOFS);
    else if (bearer != NULL)
        use_bearer(request, bearer);
    else if (ticket != NULL)
        use_ticket(request, ticket);
    else
        gate_request_problem(request, 401, 0, "this path needs Authorization: Bearer");
    free(bearer);
    free(ticket);
}

static struct gate_request *
request_new(struct gate *gate, struct lws *wsi, const struct gate_route *route, char *origin,
            bool is_counted)
{
    struct gate_request *request = memory_new(sizeof(*request));

    request->gate = gate;
    request->wsi = wsi;
    request->route = route;
    request->origin = origin;
    request->body_left = gate_body_len(wsi);
    request->who = memory_text("gate", strlen("gate"));
    buffer_init(&request->body, GATE_BODY_MAX);
    gate_request_set_state(request, GATE_REQUEST_READING);
    DL_APPEND(gate->requests, request);
    gate_reply_start(request);
    if (is_counted) {
        request->is_counted = true;
        gate->stream_count++;
        request->peer = gate_peer_enter(gate, wsi);
        stats_set(gate->stats, STAT_GATE_STREAMS, (uint64_t)gate->stream_count);
    }
    return request;
}

/* Why it is not begun, before its token is looked at. False: *ret_refusal says why. */
static bool
admits(struct gate *gate, struct lws *wsi, const struct gate_route *route, bool is_foreign,
       struct gate_refusal *ret_refusal)
{
    if (!gate_admits_request(gate, wsi)) {
        *ret_refusal = (struct gate_refusal){429, GATE_SOON, GATE_TOO_FAST};
        return false;
    }
    if (is_foreign) {
        *ret_refusal = (struct gate_refusal){403, NULL, "pages of this origin may not"};
        return false;
    }
    if (!route->is_post && gate_body_len(wsi) > GATE_LINGER_BYTES &&
        gate_body_len(wsi) != INT64_MAX) {
        *ret_refusal = (struct gate_refusal){413, NULL, "of a GET's body 64 kB are passed over"};
        return false;
    }
    if (!route->is_stream || gate_admits(gate, wsi, route->takes_ticket, ret_refusal))
        return true;
    stats_add(gate->stats, STAT_GATE_REFUSED, 1);
    return false;
}

int
gate_request_begin(struct gate *gate, struct lws *wsi, const struct gate_route *route,
                   const char *id, struct gate_request **slot)
{
    const char *origins = route->is_console ? NULL : gate->config->gate.origins;
    struct gate_refusal refusal;
    struct gate_request *request;
    char *origin;
    bool is_foreign = !gate_http_origin(gate, origins, wsi, &origin);
    bool is_admitted = admits(gate, wsi, route, is_foreign, &refusal);

    request = request_new(gate, wsi, route, origin, route->is_stream && is_admitted);
    *slot = request;
    snprintf(request->id, sizeof(request->id), "%s", id);
    if (is_admitted && route->headers != NULL)
        route->headers(request);
    if (is_admitted)
        authorise(request);
    else
        refuse(request, &refusal);
    if (!route->is_stream && request->state != GATE_REQUEST_ENDING && gate_body_begin(request) &&
        request->state == GATE_REQUEST_READING)
        gate_body_check(request);
    gate_rest_start(request);
    return 0;
}

int
gate_request_pass_over(struct gate *gate, struct lws *wsi, struct gate_answer *answer,
                       struct gate_request **slot)
{
    static const struct gate_route ANSWERED = {.path = "what needs no token"};

    *slot = request_new(gate, wsi, &ANSWERED, NULL, false);
    gate_request_answer(*slot, answer);
    gate_rest_start(*slot);
    return 0;
}

void
gate_request_body_end(struct gate_request *request)
{
    gate_request_set_state(request, GATE_REQUEST_ASKING);
    proceed(request);
}

void
gate_request_detach(struct gate_request *request)
{
    if (request->session != NULL)
        session_detach(request->session);
    request->session = NULL;
}

void
gate_request_closed(struct gate_request *request)
{
    struct gate *gate = request->gate;

    request->has_ended = true;
    gate_request_detach(request);
    if (request->redeem != NULL)
        gate_ticket_forget(request->redeem);
    if (request->keeping != NULL)
        gate_api_forget(request->keeping);
    if (request->asked != NULL)
        gate_asked_forget(request->asked);
    DL_DELETE(gate->requests, request);
    gate_rest_stop(request);
    gate_reply_stop(request);
    ev_timer_stop(gate->loop, &request->look);
    gate_body_end(request);
    if (request->is_counted) {
        gate->stream_count--;
        gate_peer_leave(gate, request->peer);
        stats_set(gate->stats, STAT_GATE_STREAMS, (uint64_t)gate->stream_count);
    }
    log_debug(request->who, "ended %s", request->route->path);
    token_free(&request->token);
    buffer_free(&request->body);
    buffer_free(&request->out);
    free(request->origin);
    free(request->key);
    free(request->traceparent);
    free(request->asked_pos);
    free(request->asked_topics);
    free(request->who);
    free(request);
}

static void
sweep_one(struct gate_request *request, int64_t now_us, int64_t wall_us)
{
    int64_t age_us = now_us - request->since_us;

    switch (request->state) {
    case GATE_REQUEST_READING:
        if (age_us > request->gate->config->gate.connect_timeout_ms * 1000)
            gate_request_problem(request, 408, 0, "the body did not come in time");
        break;
    case GATE_REQUEST_ASKING:
        if (age_us > ASKING_MAX_US)
            gate_request_no_store(request);
        break;
    case GATE_REQUEST_OPEN:
        request->route->on_sweep(request, now_us, wall_us);
        break;
    case GATE_REQUEST_ENDING:
        if (age_us > ENDING_MAX_US + (int64_t)request->out.len * 1000000 / ENDING_RATE)
            gate_request_kill(request);
        break;
    case GATE_REQUEST_LINGERING:
        if (age_us > GATE_LINGER_US)
            gate_request_kill(request);
        break;
    }
}

void
gate_requests_sweep(struct gate *gate, int64_t now_us, int64_t wall_us)
{
    struct gate_request *request;

    DL_FOREACH (gate->requests, request)
        sweep_one(request, now_us, wall_us);
}
