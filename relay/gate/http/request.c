/* request.c: changes the states of a request, and detaches its session. */
#include "gate/http/request.h"

#include <stdlib.h>

#include "base/clock.h"
#include "hub/attach.h"

void
gate_request_set_state(struct gate_request *request, enum gate_request_state state)
{
    static const unsigned before[] = {
        [GATE_REQUEST_READING] = 0,
        [GATE_REQUEST_WAITING] = 1u << GATE_REQUEST_READING | 1u << GATE_REQUEST_WAITING,
        [GATE_REQUEST_OPEN] = 1u << GATE_REQUEST_READING | 1u << GATE_REQUEST_WAITING,
        [GATE_REQUEST_ENDING] =
            1u << GATE_REQUEST_READING | 1u << GATE_REQUEST_WAITING | 1u << GATE_REQUEST_OPEN,
        [GATE_REQUEST_LINGERING] = 1u << GATE_REQUEST_ENDING,
    };

    if ((before[state] & 1u << request->state) == 0)
        abort();
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
