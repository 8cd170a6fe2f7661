/* websocket.h: the lifecycle of WebSockets. */
#ifndef CLAIRON_GATE_WS_WEBSOCKET_H
#define CLAIRON_GATE_WS_WEBSOCKET_H

#include "gate/ws/conn.h"

void gate_ws_open(struct gate *gate);
void gate_ws_close(struct gate *gate); /* after server_close */
/* Closes a connection that has not sent "connect". */
void gate_ws_evict(void *owner);

/* Callbacks from lws; they return the lws callback result. */
int gate_ws_connected(struct gate *gate, struct lws *wsi, void **ret_owner);
void gate_ws_closed(void *owner);

#endif
