/* receive.h: reads a WebSocket until gate_stop_reading. */
#ifndef CLAIRON_GATE_WS_RECEIVE_H
#define CLAIRON_GATE_WS_RECEIVE_H

#include "gate/ws/conn.h"

void gate_receive_start(struct gate_conn *conn);

#endif
