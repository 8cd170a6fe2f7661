/* acks.h: acknowledgements over HTTP. */
#ifndef CLAIRON_GATE_API_ACKS_H
#define CLAIRON_GATE_API_ACKS_H

struct gate_request;

void gate_api_ack(struct gate_request *request);
void gate_api_nack(struct gate_request *request);

#endif
