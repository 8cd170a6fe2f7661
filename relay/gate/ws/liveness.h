/* liveness.h: closes WebSockets that timed out. */
#ifndef CLAIRON_GATE_WS_LIVENESS_H
#define CLAIRON_GATE_WS_LIVENESS_H

#include <stdint.h>

struct gate;

void gate_ws_sweep(struct gate *gate, int64_t now_us, int64_t wall_us);

#endif
