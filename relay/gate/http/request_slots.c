/*
 * request_slots.c: limits the requests in progress, except polls and streams, and the memory of
 * their bodies and responses.
 *
 * Slow clients must not occupy all slots. The oldest request has had the most time, so it is
 * evicted first.
 */
#include "gate/http/request_slots.h"

#include <utlist.h>

#include "base/log.h"
#include "gate/http/response_writer.h"
#include "gate/net/gate_shared.h"

#define IN_PROGRESS_MAX 512
#define BODIES_MAX (64 * 1024 * 1024) /* maximum bytes of all bodies */

static void
reject_overload(struct gate_request *request)
{
    stats_add(request->gate->stats, STAT_GATE_REJECTED, 1);
    gate_request_problem(request, 503, 0, "too many requests in progress");
    gate_slot_release(request);
}

/* False: all bodies are complete, so no request can be evicted. */
static bool
make_room(struct gate *gate)
{
    struct gate_request *request;

    DL_FOREACH2(gate->requests->in_progress.first, request, list_next)
    {
        if (request->state == GATE_REQUEST_READING) {
            reject_overload(request);
            return true;
        }
    }
    return false;
}

bool
gate_slot_acquire(struct gate_request *request)
{
    struct gate_request_list *list = &request->gate->requests->in_progress;

    if (list->count >= IN_PROGRESS_MAX && !make_room(request->gate)) {
        reject_overload(request);
        return false;
    }
    request->has_slot = true;
    DL_APPEND2(list->first, request, list_prev, list_next);
    list->count++;
    return true;
}

void
gate_slot_add_body(struct gate_request *request, const char *bytes, size_t len)
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
