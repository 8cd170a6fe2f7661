/* message.h: handles a client's messages. */
#ifndef CLAIRON_GATE_WS_MESSAGE_H
#define CLAIRON_GATE_WS_MESSAGE_H

#include "gate/ws/conn.h"

void gate_message_handle(struct websocket *ws, const char *line, size_t len);
/* Cancels a pending ticket redemption, when the connection closes. */
void gate_message_cancel(struct websocket *ws);

#endif
