/*
 * request_slots.h: limits the requests in progress, and the memory of their bodies and responses.
 */
#ifndef CLAIRON_GATE_HTTP_REQUEST_SLOTS_H
#define CLAIRON_GATE_HTTP_REQUEST_SLOTS_H

#include "gate/http/request.h"

/*
 * Adds a request. A full list evicts the oldest request with an incomplete body. False: rejected,
 * and a response is queued.
 */
bool gate_slot_acquire(struct gate_request *request);
/* Adds bytes to the body. May reject the request. */
void gate_slot_add_body(struct gate_request *request, const char *bytes, size_t len);
#endif
