/* store_request.h: a request to the store, whose HTTP request may be gone when it answers. */
#ifndef CLAIRON_GATE_HTTP_STORE_REQUEST_H
#define CLAIRON_GATE_HTTP_STORE_REQUEST_H

#include "gate/http/request.h"

struct gate_asked *gate_asked_new(struct gate_request *request);
/* Both free it. The request, if it still waits for this reply, else NULL. */
struct gate_request *gate_asked_done(struct gate_asked *asked);
void gate_asked_failed(struct gate_asked *asked); /* 503 */
void gate_asked_forget(struct gate_asked *asked); /* the request is gone */

#endif
