/* request_auth.h: authenticates a request by token or ticket, then calls its route's handler. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_AUTH_H
#define CLAIRON_GATE_HTTP_REQUEST_AUTH_H

#include "gate/http/request.h"

/*
 * Verifies the token, or requests the token of a ticket from the store. If it is missing or
 * invalid, queues a response. A request without a body is handled as soon as its token is verified.
 * Call it while conn->head is set.
 */
void gate_request_authenticate(struct gate_request *request);
/*
 * The token is verified and the body is complete: checks claim and limits, and calls the handler.
 */
void gate_request_handle(struct gate_request *request);
/* Cancels the redemption of a ticket. Accepts a request without a ticket. */
void gate_request_auth_cancel(struct gate_request *request);

#endif
