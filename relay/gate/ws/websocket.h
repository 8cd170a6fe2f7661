/* websocket.h: the lives of WebSockets. */
#ifndef CLAIRON_GATE_WS_WEBSOCKET_H
#define CLAIRON_GATE_WS_WEBSOCKET_H

#include "gate/ws/conn.h"

void gate_ws_open(struct gate *gate);
void gate_ws_close(struct gate *gate); /* after server_close */
/* Ends one that has not sent "connect". */
void gate_ws_evict(void *owner);

/* What lws calls; to lws: 0. */
int gate_ws_connected(struct gate *gate, struct lws *wsi, void **ret_owner);
void gate_ws_closed(void *owner);

#endif
