/* store_request.h: a request to the store, whose HTTP request may be gone when it answers. */
#ifndef CLAIRON_GATE_HTTP_STORE_REQUEST_H
#define CLAIRON_GATE_HTTP_STORE_REQUEST_H

#include "gate/http/request.h"

struct store_request *store_request_new(struct gate_request *request);
/* Both free it. The request, if it still waits for this reply, else NULL. */
struct gate_request *store_request_done(struct store_request *store_request);
void store_request_failed(struct store_request *store_request); /* 503 */
void store_request_cancel(struct store_request *store_request); /* the request is gone */

#endif
