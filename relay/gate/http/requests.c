/* requests.c: the lifecycle of pending HTTP requests: begin, body, response, timeouts, end. */
#include "gate/http/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/http/head_check.h"
#include "gate/net/limits.h"
#include "gate/http/origin.h"
#include "gate/http/request_auth.h"
#include "gate/http/request_body.h"
#include "gate/http/request_slots.h"
#include "gate/http/response.h"
#include "gate/http/response_writer.h"
#include "gate/http/store_request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"

#define STORE_TIMEOUT_US (10 * 1000000) /* maximum wait for a reply of the store */
/* Time limit for writing a response: a minimum, plus its size divided by a rate (bytes/s). */
#define ENDING_TIMEOUT_US (5 * 1000000)
#define ENDING_RATE (32 * 1024)

static struct gate_request *
request_new(struct gate *gate, struct lws *wsi, const struct gate_route *route, char *origin,
            bool is_counted)
{
    struct gate_request *request = memory_new(sizeof(*request) + route->state_bytes);

    request->gate = gate;
    request->io = conn_io_of(wsi);
    request->route = route;
    request->origin = origin;
    request->body_left = gate_body_len(wsi);
    buffer_init(&request->body, route->body_max);
    if (gate->hub != NULL)
        request->out.waiting_bytes = hub_waiting_bytes(gate->hub);
    request->since_us = clock_monotonic_us();
    DL_APPEND(gate->requests->first, request);
    gate_writer_start(request);
    if (is_counted) {
        request->is_counted = true;
        request->peer = gate_limits_add_stream(gate, wsi);
    }
    return request;
}

/* Performs the checks that precede token verification. False: *ret_rejection is the reason. */
static bool
admits(struct gate *gate, struct lws *wsi, const struct gate_route *route, bool is_foreign,
       struct gate_rejection *ret_rejection)
{
    if (!gate_admits_request(gate, wsi)) {
        *ret_rejection = (struct gate_rejection){429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED};
        return false;
    }
    if (is_foreign) {
        *ret_rejection = (struct gate_rejection){403, 0, NULL, GATE_ORIGIN_NOT_ALLOWED};
        return false;
    }
    if (route->body_max == 0 && gate_body_len(wsi) > GATE_LINGER_BYTES &&
        gate_body_len(wsi) != GATE_BODY_LEN_UNKNOWN) {
        *ret_rejection = (struct gate_rejection){413, 0, NULL, "GET body exceeds 64 kB"};
        return false;
    }
    if (!route->is_stream || gate_admits(gate, wsi, route->accepts_ticket, ret_rejection))
        return true;
    stats_add(gate->stats, STAT_GATE_REJECTED, 1);
    return false;
}

int
gate_request_begin(struct gate *gate, struct lws *wsi, const struct gate_route *route,
                   const char *id, void **ret_owner)
{
    const char *origins = route->is_console ? NULL : gate->config->gate.origins;
    struct gate_rejection rejection;
    struct gate_request *request;
    char *origin;
    bool is_foreign = !gate_origin_read(gate, origins, wsi, &origin);
    bool is_admitted = admits(gate, wsi, route, is_foreign, &rejection);

    request = request_new(gate, wsi, route, origin, route->is_stream && is_admitted);
    *ret_owner = request;
    snprintf(request->id, sizeof(request->id), "%s", id);
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
    return 0;
}

int
gate_request_discard_body(struct gate *gate, struct lws *wsi, struct response *response,
                          void **ret_owner)
{
    static const struct gate_route DISCARD = {.path = "(discarded body)"};

    struct gate_request *request = request_new(gate, wsi, &DISCARD, NULL, false);

    *ret_owner = request;
    gate_request_respond(request, response);
    gate_body_start(request);
    return 0;
}

static void
on_body(struct gate_request *request)
{
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    gate_request_handle(request);
}

/* Lingers if the client may still be sending, so that it can read the response. */
static void
on_written(struct gate_request *request)
{
    if (request->half_closed || (request->body_left == 0 && request->discarded == 0)) {
        gate_request_kill(request);
        return;
    }
    request->discarded = 0;
    gate_request_set_state(request, GATE_REQUEST_LINGERING);
    gate_slot_linger(request);
    if (!conn_io_half_close(&request->io))
        gate_request_kill(request);
}

void
gate_requests_open(struct gate *gate)
{
    static const struct request_handler HANDLER = {
        .on_body = on_body, .on_response = gate_slot_add_response, .on_written = on_written};

    gate->requests = memory_new(sizeof(*gate->requests));
    gate->requests->handler = &HANDLER;
}

void
gate_requests_close(struct gate *gate)
{
    while (gate->requests->first != NULL)
        gate_request_closed(gate->requests->first);
    free(gate->requests);
    gate->requests = NULL;
}

void
gate_request_closed(void *owner)
{
    struct gate_request *request = owner;
    struct gate *gate = request->gate;

    request->has_ended = true;
    gate_request_detach(request);
    gate_request_auth_cancel(request);
    if (request->store_request != NULL)
        store_request_cancel(request->store_request);
    DL_DELETE(gate->requests->first, request);
    gate_body_stop(request);
    gate_writer_stop(request);
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
        break;
    case GATE_REQUEST_ENDING:
        if (age_us > ENDING_TIMEOUT_US + (int64_t)request->response_len * 1000000 / ENDING_RATE)
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

    DL_FOREACH (gate->requests->first, request)
        sweep_one(request, now_us, wall_us);
}
