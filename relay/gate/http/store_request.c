/* store_request.c: a request to the store, which may outlive its HTTP request. */
#include "gate/http/store_request.h"

#include <stdlib.h>

#include "base/memory.h"
#include "gate/http/response_writer.h"

struct store_request {
    struct gate_request *request; /* NULL: cancelled */
};

struct store_request *
store_request_new(struct gate_request *request)
{
    struct store_request *store_request = memory_new(sizeof(*store_request));

    store_request->request = request;
    request->store_request = store_request;
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    return store_request;
}

struct gate_request *
store_request_done(struct store_request *store_request)
{
    struct gate_request *request = store_request->request;

    free(store_request);
    if (request == NULL)
        return NULL;
    request->store_request = NULL;
    return request->state == GATE_REQUEST_WAITING ? request : NULL;
}

void
store_request_failed(struct store_request *store_request)
{
    struct gate_request *request = store_request_done(store_request);

    if (request != NULL)
        gate_request_no_store(request);
}

void
store_request_cancel(struct store_request *store_request)
{
    store_request->request = NULL;
}
