/* request_body.h: reads the body of a request. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_BODY_H
#define CLAIRON_GATE_HTTP_REQUEST_BODY_H

#include "gate/http/request.h"

/*
 * Reads the socket instead of lws, and frees the headers in lws. Handles a body that is already
 * complete.
 */
void gate_body_start(struct gate_request *request);
/* Adds body bytes that lws read together with the head. */
void gate_body_received(struct gate_request *request, const char *bytes, size_t len);
void gate_body_stop(struct gate_request *request);

/* Rejects a body over the route's limit. Call it while lws has the request's headers. */
void gate_body_check(struct gate_request *request);
#define GATE_BODY_LEN_UNKNOWN INT64_MAX /* chunked, or a POST without Content-Length */
/* Returns the body length in bytes according to the headers. */
int64_t gate_body_len(struct lws *wsi);

#endif
