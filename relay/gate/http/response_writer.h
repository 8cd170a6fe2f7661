/* response_writer.h: writes the response of a request. */
#ifndef CLAIRON_GATE_HTTP_RESPONSE_WRITER_H
#define CLAIRON_GATE_HTTP_RESPONSE_WRITER_H

#include "base/rc.h"
#include "gate/http/request.h"

struct gate_rejection;

void gate_request_want_write(struct gate_request *request);
/* Writes what is queued. True: the response is written completely. */
MUST_CHECK bool gate_request_write(struct gate_request *request);

/* Queues the final response and frees it. */
void gate_request_respond(struct gate_request *request, struct response *response);
void gate_request_respond_empty(struct gate_request *request); /* status 204 */
void gate_request_problem(struct gate_request *request, int status, int code, const char *sentence);
void gate_request_reject(struct gate_request *request, const struct gate_rejection *rejection);
void gate_request_body_too_large(struct gate_request *request); /* status 413 */
/* Status 503: the store is down or slow. */
void gate_request_no_store(struct gate_request *request);
/* Queues the response if its body was written completely (RC_OK), otherwise status 500. */
void gate_request_respond_whole(struct gate_request *request, struct response *response,
                                enum rc written);

#endif
