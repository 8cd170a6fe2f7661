/* websocket.h: the lifecycle of WebSockets. */
#ifndef CLAIRON_GATE_WS_WEBSOCKET_H
#define CLAIRON_GATE_WS_WEBSOCKET_H

#include "gate/ws/conn.h"

void gate_ws_open(struct gate *gate);
void gate_ws_close(struct gate *gate); /* after conns_close */
/* Closes a connection that has not sent "connect". */
void gate_ws_evict(void *owner);

/* The upgrade of conn->head was accepted. */
void gate_ws_begin(struct conn *conn);

#endif
