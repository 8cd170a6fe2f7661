/* requests.h: the lifecycle of pending HTTP requests. */
#ifndef CLAIRON_GATE_HTTP_REQUESTS_H
#define CLAIRON_GATE_HTTP_REQUESTS_H

#include "gate/http/request.h"

/* The events of a connection in HANDSHAKE, HEAD and KEPT. */
extern const struct conn_events GATE_HEAD_EVENTS;

void gate_requests_open(struct gate *gate);
void gate_requests_close(struct gate *gate);
void gate_requests_sweep(struct gate *gate, int64_t now_us, int64_t wall_us);
/* Responds with 408 to incomplete heads. */
void gate_heads_sweep(struct gate *gate, int64_t now_us);

/* Starts a request whose head is conn->head. `id` is the UUID in the path, or empty. */
void gate_request_begin(struct conn *conn, const struct gate_route *route, const char *id);
/* Sends and frees the response to a request that needs no token, and discards its body. */
void gate_request_reply(struct conn *conn, struct response *response);

#endif
