/* publish.h: POST /v1/notifications, and GET /v1/notifications/ID. */
#ifndef CLAIRON_GATE_API_PUBLISH_H
#define CLAIRON_GATE_API_PUBLISH_H

#include "gate/http/request.h"

void gate_publish_open(struct gate *gate);
/* Publications in progress complete without the gate. */
void gate_publish_close(struct gate *gate);

/* For routes whose route_state is a struct gate_publication (publish_response.h). */
void gate_publish_headers(struct gate_request *request);
void gate_publish(struct gate_request *request);
void gate_publish_free(struct gate_request *request);

void gate_publish_trace(struct gate_request *request);

#endif
