/* store_request.c: a question of a request that is under way at the store, and may outlive it. */
#include "gate/http/store_request.h"

#include <stdlib.h>

#include "base/memory.h"
#include "gate/http/response_writer.h"

struct gate_asked {
    struct gate_request *request; /* NULL: gone */
};

struct gate_asked *
gate_asked_new(struct gate_request *request)
{
    struct gate_asked *asked = memory_new(sizeof(*asked));

    asked->request = request;
    request->asked = asked;
    gate_request_set_state(request, GATE_REQUEST_ASKING);
    return asked;
}

struct gate_request *
gate_asked_done(struct gate_asked *asked)
{
    struct gate_request *request = asked->request;

    free(asked);
    if (request == NULL)
        return NULL;
    request->asked = NULL;
    return request->state == GATE_REQUEST_ASKING ? request : NULL;
}

void
gate_asked_failed(struct gate_asked *asked)
{
    struct gate_request *request = gate_asked_done(asked);

    if (request != NULL)
        gate_request_no_store(request);
}

void
gate_asked_forget(struct gate_asked *asked)
{
    asked->request = NULL;
}
