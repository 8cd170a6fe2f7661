/* request_session.h: the session of a poll or SSE stream. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_SESSION_H
#define CLAIRON_GATE_HTTP_REQUEST_SESSION_H

#include "gate/http/request.h"

struct session_request;

/* Attaches a session of the token's user. Its frames are passed to the route as lines. */
void gate_request_attach(struct gate_request *request, struct session_request *wanted);

#endif
