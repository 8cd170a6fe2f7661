/* accept.h: accepts connections from the listening sockets. */
#ifndef CLAIRON_GATE_NET_ACCEPT_H
#define CLAIRON_GATE_NET_ACCEPT_H

#include "base/rc.h"
#include "gate/net/listen.h"

struct gate;

/* Accepts connections of gate.admin_listen. */
void gate_accept_start(struct gate *gate, struct gate_sockets sockets);
/* Accepts connections of gate.listen, too. Logs a failure. */
MUST_CHECK enum rc gate_accept_clients(struct gate *gate);
/* Both functions accept a gate that was never started. */
void gate_accept_stop(struct gate *gate);
void gate_accept_free(struct gate *gate);

#endif
