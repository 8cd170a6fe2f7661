/* requests.h: the lifecycle of pending HTTP requests. */
#ifndef CLAIRON_GATE_HTTP_REQUESTS_H
#define CLAIRON_GATE_HTTP_REQUESTS_H

#include "gate/http/request.h"

void gate_requests_open(struct gate *gate);
void gate_requests_close(struct gate *gate);
void gate_requests_sweep(struct gate *gate, int64_t now_us, int64_t wall_us);

/* Starts a request. Returns the lws callback result 0. `id` is the UUID in the path, or empty. */
int gate_request_begin(struct gate *gate, struct lws *wsi, const struct gate_route *route,
                       const char *id, void **ret_owner);
/* Sends and frees the response, and discards the request's body. Returns 0. */
int gate_request_discard_body(struct gate *gate, struct lws *wsi, struct response *response,
                              void **ret_owner);
void gate_request_closed(void *owner); /* the socket is closed */

#endif
