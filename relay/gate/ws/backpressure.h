/* backpressure.h: pauses reading from clients that send too fast. */
#ifndef CLAIRON_GATE_WS_BACKPRESSURE_H
#define CLAIRON_GATE_WS_BACKPRESSURE_H

#include "gate/ws/conn.h"

#define GATE_BURST_US INT64_C(1000000) /* burst that a client may send above its rate */

void gate_backpressure_open(struct gate *gate);
void gate_backpressure_close(struct gate *gate);
/* Pauses reading until the client is less than GATE_BURST_US above its rate. */
void gate_pause_reading(struct websocket *ws);
/* Stops reading permanently. */
void gate_stop_reading(struct websocket *ws);
/* The WebSocket is freed. */
void gate_backpressure_remove(struct websocket *ws);

#endif
