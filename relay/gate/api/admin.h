/* admin.h: the push kill switch. */
#ifndef CLAIRON_GATE_API_ADMIN_H
#define CLAIRON_GATE_API_ADMIN_H

struct gate_request;

void gate_api_push(struct gate_request *request);

#endif
