/* probes.h: for monitors of the process. */
#ifndef CLAIRON_GATE_API_PROBES_H
#define CLAIRON_GATE_API_PROBES_H

struct gate;
struct gate_answer;

void gate_probe_healthz(struct gate *gate, struct gate_answer *ret_answer);
void gate_probe_readyz(struct gate *gate, struct gate_answer *ret_answer);
void gate_probe_metrics(struct gate *gate, struct gate_answer *ret_answer);

#endif
