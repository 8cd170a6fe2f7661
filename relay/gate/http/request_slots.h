/* request_slots.h: requests under way, which have a ceiling together. */
#ifndef CLAIRON_GATE_HTTP_REQUEST_SLOTS_H
#define CLAIRON_GATE_HTTP_REQUEST_SLOTS_H

#include "gate/http/request.h"

/*
 * Those whose body is waited for longest make room. False: there is none, and the request is
 * answered.
 */
bool gate_slot_take(struct gate_request *request);
/* A piece of the body; the request may be answered after it. */
void gate_slot_add_body(struct gate_request *request, const char *bytes, size_t len);
void gate_slot_release(struct gate_request *request); /* accepts one that has no slot */
/* Its body is done with; it waits for its client to read the response, and the oldest no more. */
void gate_slot_linger(struct gate_request *request);

#endif
