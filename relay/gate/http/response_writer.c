/* response_writer.c: writes to the client of an HTTP request. */
#include "gate/http/response_writer.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "gate/http/response.h"
#include "gate/net/gate_shared.h"
#include "gate/net/limits.h"
#include "hub/session.h"

#define REQUESTS_MAX 10000 /* on one connection */

/* Writes until the socket is full. False: the socket failed. */
static bool
write_out(struct gate_request *request)
{
    const size_t before = request->out.len;
    const enum rc rc = out_write(&request->out, request->conn, GATE_TURN_BYTES);

    if (request->session != NULL && request->out.len < before)
        session_accepted(request->session);
    if (rc == RC_OK)
        request->unwritable_us = 0;
    return rc != RC_IO;
}

/* Fills `out` from the route and the session. */
static void
fill(struct gate_request *request)
{
    if (request->route->on_writable != NULL)
        request->route->on_writable(request);
    if (request->out.len == 0 && request->state == GATE_REQUEST_OPEN)
        session_writable(request->session);
}

bool
gate_request_write(struct gate_request *request)
{
    bool has_more = request->out.len > 0;

    if (!has_more)
        request->unwritable_us = 0;
    if (request->state == GATE_REQUEST_OPEN && !has_more)
        fill(request);
    if (request->state == GATE_REQUEST_ENDING)
        gate_request_detach(request);
    has_more = request->out.len > 0;
    if (has_more && !write_out(request))
        conn_close(request->conn);
    else if (request->state == GATE_REQUEST_ENDING && request->out.len == 0)
        return true;
    else if (has_more)
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

/* Whether the connection can serve another request after this response. */
static bool
can_continue(const struct gate_request *request, const struct response *response)
{
    return !request->is_last && !request->gate->draining && !gate_body_is_unread(request) &&
           response->status != 426 && request->conn->requests < REQUESTS_MAX;
}

void
gate_request_respond(struct gate_request *request, struct response *response)
{
    struct buffer built;

    response_allow_origin(response, request->origin);
    out_free(&request->out);
    request->is_last = !can_continue(request, response);
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
    gate_slot_add_response(request);
    gate_request_want_write(request);
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
    gate_request_problem(request, 503, 0, "store does not reply");
}

void
gate_request_respond_empty(struct gate_request *request)
{
    struct response response;

    response_init(&response, 204, GATE_JSON);
    gate_request_respond(request, &response);
}
