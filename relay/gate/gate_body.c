/*
 * gate_body.c: the bodies of requests that are under way, which have a ceiling together.
 *
 * While a body comes, lws holds the headers of its request, of which it has so many: who sends
 * slowly must not take them from everybody else. The one that came first has had the most time.
 */
#include <utlist.h>

#include "gate/gate_request.h"

#define POSTS_MAX (GATE_HEADER_POOL / 2)
#define BODIES_MAX (64 * 1024 * 1024) /* bytes of all of them */

void
gate_body_end(struct gate_request *request)
{
    struct gate *gate = request->gate;

    if (!request->is_post_counted)
        return;
    request->is_post_counted = false;
    DL_DELETE2(gate->posts, request, post_prev, post_next);
    gate->post_count--;
    gate->body_bytes -= request->body.len;
    buffer_free(&request->body);
}

static void
refuse(struct gate_request *request)
{
    stats_add(request->gate->stats, STAT_GATE_REFUSED, 1);
    gate_request_problem(request, 503, 0, "too many requests with a body are under way");
    gate_body_end(request);
}

/* False: all that are under way are complete, and wait for the store. */
static bool
make_room(struct gate *gate)
{
    struct gate_request *request;

    DL_FOREACH2(gate->posts, request, post_next)
    {
        if (request->state == GATE_REQUEST_READING) {
            refuse(request);
            return true;
        }
    }
    return false;
}

bool
gate_body_begin(struct gate_request *request)
{
    struct gate *gate = request->gate;

    if (gate->post_count >= POSTS_MAX && !make_room(gate)) {
        refuse(request);
        return false;
    }
    request->is_post_counted = true;
    DL_APPEND2(gate->posts, request, post_prev, post_next);
    gate->post_count++;
    return true;
}

void
gate_body_add(struct gate_request *request, const char *bytes, size_t len)
{
    struct gate *gate = request->gate;

    while (gate->body_bytes + len > BODIES_MAX && make_room(gate))
        ;
    if (request->state != GATE_REQUEST_READING) /* it was the oldest itself */
        return;
    if (gate->body_bytes + len > BODIES_MAX)
        refuse(request);
    else if (buffer_add(&request->body, bytes, len) != RC_OK)
        gate_request_problem(request, 413, 0, "a body may have 1 MB");
    else
        gate->body_bytes += len;
}
