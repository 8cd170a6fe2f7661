/* request_body.h: reads the body of a request. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_BODY_H
#define CLAIRON_GATE_HTTP_REQUEST_BODY_H

#include "gate/http/request.h"

/* Rejects a body over the route's limit. Call it while conn->head is set. */
void gate_body_check(struct gate_request *request);
/* The request was created and checked: handles a complete body, or reads it. */
void gate_body_start(struct gate_request *request);
void gate_body_bytes(struct gate_request *request, const unsigned char *bytes, size_t len);
/* Starts to discard the rest of the body. */
void gate_body_linger(struct gate_request *request);
/* Detects that the client of a poll half-closed. */
void gate_body_sweep(struct gate_request *request);

#endif
