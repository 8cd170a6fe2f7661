/* head.h: reads request heads. */
#ifndef CLAIRON_GATE_HTTP_HEAD_H
#define CLAIRON_GATE_HTTP_HEAD_H

#include <stdint.h>

#include "gate/net/conn.h"

/* The events of a connection in HANDSHAKE, HEAD and KEPT. */
extern const struct conn_events GATE_HEAD_EVENTS;

/* The response was written: waits for the next request, which may have arrived. */
void gate_head_next(struct conn *conn);
/* Responds with 408 to incomplete heads. */
void gate_heads_sweep(struct gate *gate, int64_t now_us);

#endif
