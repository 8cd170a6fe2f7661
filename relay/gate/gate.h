/* gate.h: serves clients over WebSocket and HTTP. */
#ifndef CLAIRON_GATE_GATE_H
#define CLAIRON_GATE_GATE_H

#include <stdbool.h>

#include "base/config.h"
#include "base/stats.h"
#include "gate/net/listen.h"

struct buffer;
struct ev_loop;
struct gate;
struct hub;

/* Callbacks from the routes into the process: readiness, push switch, rules. */
struct gate_process {
    /*
     * Returns whether the relay can serve its clients; needs_feed: and its feed is streaming or
     * in standby. Appends the members of a JSON object, such as "feed":"streaming","store":"up".
     */
    bool (*ready)(void *ctx, bool needs_feed, struct buffer *detail);
    /* Switches push on or off in all processes that serve this port. */
    void (*switch_push)(void *ctx, bool on);
    /* Appends the rules as JSON (feed.h). RC_AGAIN: another process reads the slot. */
    enum rc (*rules)(void *ctx, struct buffer *out);
    void *ctx;
};

/*
 * Accepts connections from gate.admin_listen, and serves them on the loop. Returns NULL after
 * logging the reason. config, hub, stats and process must outlive the gate. The caller still owns
 * the descriptors. hub is NULL in a process without the role gate, which serves only health probes
 * and metrics.
 */
struct gate *gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub,
                       struct stats *stats, const struct gate_process *process,
                       struct gate_sockets sockets);

/*
 * Starts a graceful shutdown: stops accepting, sends bye 4201 with `in` spread over the drain
 * period, and closes. Calls on_drained after the last connection has closed, or when the period
 * ends.
 */
void gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx);

/* Kill switch. While push is off, WebSocket and SSE are closed and rejected; polls are served. */
void gate_push_set(struct gate *gate, bool on);

/* From now on, verifies tokens with the keys of the config. */
void gate_reload_keys(struct gate *gate);

/* Closes all connections and frees the gate. Accepts NULL. */
void gate_close(struct gate *gate);

#endif
