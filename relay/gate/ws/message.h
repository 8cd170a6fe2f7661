/* message.h: handles a client's messages. */
#ifndef CLAIRON_GATE_WS_MESSAGE_H
#define CLAIRON_GATE_WS_MESSAGE_H

#include "gate/ws/conn.h"

void gate_message_handle(struct gate_conn *conn, const char *line, size_t len);
/* Cancels a pending ticket redemption, when the connection closes. */
void gate_message_cancel(struct gate_conn *conn);

#endif
