/* sweep.h: one timer for all connections. */
#ifndef CLAIRON_GATE_SWEEP_H
#define CLAIRON_GATE_SWEEP_H

#include <stdint.h>

struct gate;

void gate_sweep_start(struct gate *gate);
void gate_sweep_stop(struct gate *gate);
/* Looks more often, and calls on_drained once the last connection is gone or the window is over. */
void gate_sweep_drain(struct gate *gate, int64_t window_ms, void (*on_drained)(void *ctx),
                      void *ctx);

#endif
