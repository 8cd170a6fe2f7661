/* request_body.h: what a client sends behind the head of its request. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_BODY_H
#define CLAIRON_GATE_HTTP_REQUEST_BODY_H

#include "gate/http/request.h"

/* lws gives up the headers, and reads no more; a body that is complete already is handled. */
void gate_body_start(struct gate_request *request);
/* Bytes that lws had read with the head. */
void gate_body_received(struct gate_request *request, const char *bytes, size_t len);
void gate_body_stop(struct gate_request *request);

/* Is it one that is accepted? Else the request is answered. While lws has the request's headers. */
void gate_body_check(struct gate_request *request);
/* Bytes as announced; more than GATE_BODY_MAX: too many. INT64_MAX: in chunks. */
int64_t gate_body_len(struct lws *wsi);

#endif
