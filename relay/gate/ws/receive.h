/* receive.h: reads a WebSocket's frames. */
#ifndef CLAIRON_GATE_WS_RECEIVE_H
#define CLAIRON_GATE_WS_RECEIVE_H

#include "gate/ws/conn.h"

void gate_receive(struct websocket *ws, unsigned char *bytes, size_t len);

#endif
