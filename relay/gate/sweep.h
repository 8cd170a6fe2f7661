/* sweep.h: checks the timeouts of all connections with one timer. */
#ifndef CLAIRON_GATE_SWEEP_H
#define CLAIRON_GATE_SWEEP_H

#include <stdint.h>

struct gate;

void gate_sweep_start(struct gate *gate);
void gate_sweep_stop(struct gate *gate);
/*
 * Sweeps more often. Calls on_drained after the last connection has closed or when the drain period
 * ends.
 */
void gate_sweep_drain(struct gate *gate, int64_t window_ms, void (*on_drained)(void *ctx),
                      void *ctx);

#endif
