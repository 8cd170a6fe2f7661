/* tickets.h: tickets for clients that cannot set a header. */
#ifndef CLAIRON_GATE_API_TICKETS_H
#define CLAIRON_GATE_API_TICKETS_H

struct gate_request;

void gate_api_ticket(struct gate_request *request);

#endif
