/* store_request.h: a request to the store, which may outlive its HTTP request. */
#ifndef CLAIRON_GATE_HTTP_STORE_REQUEST_H
#define CLAIRON_GATE_HTTP_STORE_REQUEST_H

#include "gate/http/request.h"

struct store_request *store_request_new(struct gate_request *request);
/*
 * Both functions free the store request. store_request_done returns the HTTP request if it still
 * waits for this reply, otherwise NULL.
 */
struct gate_request *store_request_done(struct store_request *store_request);
void store_request_failed(struct store_request *store_request); /* responds with 503 */
/* called when the HTTP request is closed */
void store_request_cancel(struct store_request *store_request);

#endif
