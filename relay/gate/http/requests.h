/* requests.h: the lives of HTTP requests. */
#ifndef CLAIRON_GATE_HTTP_REQUESTS_H
#define CLAIRON_GATE_HTTP_REQUESTS_H

#include "gate/http/request.h"

void gate_requests_open(struct gate *gate);
void gate_requests_close(struct gate *gate);
void gate_requests_sweep(struct gate *gate, int64_t now_us, int64_t wall_us);

/* To lws: 0. `id`: of the path; empty: the route has none. */
int gate_request_begin(struct gate *gate, struct lws *wsi, const struct gate_route *route,
                       const char *id, void **ret_owner);
/* Likewise, with its response, which is freed: what still comes of a body is passed over. */
int gate_request_discard_body(struct gate *gate, struct lws *wsi, struct response *response,
                              void **ret_owner);
void gate_request_closed(void *owner); /* of its socket */

#endif
