/* probes.h: health probes and metrics. */
#ifndef CLAIRON_GATE_API_PROBES_H
#define CLAIRON_GATE_API_PROBES_H

struct gate;
struct lws;
struct response;

void gate_probe_healthz(struct gate *gate, struct lws *wsi, struct response *ret_response);
void gate_probe_readyz(struct gate *gate, struct lws *wsi, struct response *ret_response);
void gate_probe_metrics(struct gate *gate, struct lws *wsi, struct response *ret_response);

#endif
