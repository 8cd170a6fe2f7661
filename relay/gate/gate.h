/* gate.h: the sockets that clients connect to: WebSocket and HTTP. */
#ifndef CLAIRON_GATE_GATE_H
#define CLAIRON_GATE_GATE_H

#include <stdbool.h>

#include "base/config.h"
#include "base/stats.h"
#include "gate/net/health.h"
#include "gate/net/listen.h"
#include "gate/net/tls.h"

struct ev_loop;
struct gate;
struct hub;

/*
 * Takes connections from the sockets on the given loop. NULL when it could not,
 * after one log line with the reason. config, hub and stats must outlive it;
 * health is copied, the descriptors stay the caller's. hub NULL: a process without the role gate,
 * which serves its health and metrics only.
 */
struct gate *gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub,
                       struct stats *stats, const struct gate_health *health,
                       struct gate_sockets sockets);

/*
 * Stops accepting, sends bye (4201, `in` spread over the drain window) to everyone and closes them;
 * calls on_drained once the last is gone, at the latest when the drain window is over.
 */
void gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx);

/* The kill switch: while it is off, WebSocket and SSE are closed and refused; polls work. */
void gate_push_set(struct gate *gate, bool on);

/* The config's keys of tokens have changed: verifies by those from now on. */
void gate_reload_keys(struct gate *gate);

/* Closes whatever is still open. Accepts NULL. */
void gate_close(struct gate *gate);

#endif
