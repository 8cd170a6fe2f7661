/*
 * barrier_route.c: GET /v1/barrier: the cursor behind the notifications of all visible
 * transactions.
 */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "wire/client_message.h"
#include "wire/http_head.h"

#define XID_MAX 20 /* digits */

static struct gate_barrier *
barrier_of(struct gate_request *request)
{
    return (struct gate_barrier *)request->route_state;
}

static void
on_done(void *ctx, const struct barrier_result *result)
{
    struct gate_request *request = ctx;
    const struct barrier_error *error = result->error;
    struct response response;
    enum rc rc;

    barrier_of(request)->barrier = NULL;
    if (request->state != GATE_REQUEST_WAITING)
        return;
    if (error != NULL) {
        response_problem(&response, error->http_status, (enum gate_err)error->code, error->text);
        if (result->after_ms >= 0)
            response_header(&response, "Retry-After: %lld",
                            (long long)(result->after_ms + 999) / 1000);
        gate_request_respond(request, &response);
        return;
    }
    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"pos\":\"%s\"%s}\n", result->pos,
                     !result->has_outcome   ? ""
                     : result->is_committed ? ",\"committed\":true"
                                            : ",\"committed\":false");
    gate_request_respond_whole(request, &response, rc);
}

void
gate_barrier_begin(struct gate_request *request)
{
    struct gate_barrier *barrier = barrier_of(request);
    char *x = http_head_argument(request->conn->head, "x=", XID_MAX);
    uint64_t xid = 0;

    if (x != NULL && !client_message_parse_xid(x, strlen(x), &xid)) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "\"x\" must be a transaction id, as a string of digits");
        free(x);
        return;
    }
    free(x);
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    barrier->barrier =
        hub_barrier_start(request->gate->hub, request->token.user, xid, on_done, request);
    if (barrier->barrier != NULL)
        gate_slot_release(request);
    else
        gate_request_problem(request, 503, GATE_ERR_RATE, "too many barriers");
}

void
gate_barrier_free(struct gate_request *request)
{
    hub_barrier_end(barrier_of(request)->barrier);
}
