/* request_slots.h: bounds the requests in progress and their bodies. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_SLOTS_H
#define CLAIRON_GATE_HTTP_REQUEST_SLOTS_H

#include "gate/http/request.h"

/*
 * Adds a request. A full list evicts the oldest one with an incomplete body. False: rejected, and
 * the response is queued.
 */
bool gate_slot_acquire(struct gate_request *request);
/* Adds bytes to the body. May reject the request. */
void gate_slot_add_body(struct gate_request *request, const char *bytes, size_t len);
void gate_slot_release(struct gate_request *request); /* accepts a request without a slot */
/*
 * Frees the body and moves the request to the list of those with a response. Closes the oldest one
 * there if the list is full.
 */
void gate_slot_linger(struct gate_request *request);

#endif
