/* probes.h: health probes and metrics. */
#ifndef CLAIRON_GATE_API_PROBES_H
#define CLAIRON_GATE_API_PROBES_H

struct conn;
struct response;

void gate_probe_healthz(struct conn *conn, struct response *ret_response);
void gate_probe_readyz(struct conn *conn, struct response *ret_response);
void gate_probe_metrics(struct conn *conn, struct response *ret_response);

#endif
