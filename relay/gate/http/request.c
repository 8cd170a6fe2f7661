/* request.c: state changes and session detach of a request. */
#include "base/clock.h"
#include "gate/http/request.h"
#include "hub/attach.h"

void
gate_request_set_state(struct gate_request *request, enum gate_request_state state)
{
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
