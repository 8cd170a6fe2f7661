/* request_session.h: the session of a poll or stream. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_SESSION_H
#define CLAIRON_GATE_HTTP_REQUEST_SESSION_H

#include "gate/http/request.h"

struct session_request;

/* Attaches a session to the request's token; its lines go to the route. */
void gate_request_attach(struct gate_request *request, struct session_request *wanted);

#endif
