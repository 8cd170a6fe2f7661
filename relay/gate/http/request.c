/* request.c: changes the states of a request, and releases what it holds. */
#include "gate/http/request.h"

#include <stdlib.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "gate/net/gate_shared.h"
#include "hub/session.h"

#define RESPONSES_MAX (64 * 1024 * 1024) /* maximum bytes of all unfinished responses */

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

void
gate_request_detach(struct gate_request *request)
{
    if (request->session != NULL)
        session_detach(request->session);
    request->session = NULL;
}

static void
drop_body(struct gate_request *request)
{
    request->gate->requests->body_bytes -= request->body.len;
    buffer_free(&request->body);
}

void
gate_slot_release(struct gate_request *request)
{
    struct gate_request_list *list = &request->gate->requests->in_progress;

    if (!request->has_slot)
        return;
    request->has_slot = false;
    DL_DELETE2(list->first, request, list_prev, list_next);
    list->count--;
    drop_body(request);
    request->gate->requests->response_bytes -= request->response_len;
}

/* Returns the oldest other request whose response is not written completely. NULL: none. */
static struct gate_request *
oldest_response(const struct gate_request *request)
{
    struct gate_request *each;

    DL_FOREACH2(request->gate->requests->in_progress.first, each, list_next)
    {
        if (each != request && each->state == GATE_REQUEST_ENDING)
            return each;
    }
    return NULL;
}

void
gate_slot_add_response(struct gate_request *request)
{
    struct requests *requests = request->gate->requests;
    struct gate_request *oldest;

    if (!request->has_slot)
        return;
    requests->response_bytes += request->response_len;
    while (requests->response_bytes > RESPONSES_MAX &&
           (oldest = oldest_response(request)) != NULL) {
        log_debug("gate", "slow client closed: all responses exceed their limit",
                  LOG_REQUEST(oldest));
        gate_slot_release(oldest);
        conn_close(oldest->conn);
    }
}
