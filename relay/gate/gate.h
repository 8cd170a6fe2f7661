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
struct web_push_sender;

/* Callbacks from the routes into the process: readiness, real-time switch, rules, feed, sinks. */
struct gate_process {
    /*
     * Returns whether the relay can serve its clients; needs_feed: and its feed is streaming or
     * in standby. Appends the members of a JSON object, such as "feed":"streaming","store":"up".
     */
    bool (*ready)(void *ctx, bool needs_feed, struct buffer *detail);
    /* Switches real-time delivery on or off in all processes that serve this port. */
    void (*switch_realtime)(void *ctx, bool on);
    /* Appends the rules as JSON (feed.h). RC_AGAIN: another process reads the slot. */
    enum rc (*rules)(void *ctx, struct buffer *out);
    /* Appends why the feed is down or stalled, as JSON; null if it is not, or unknown. */
    enum rc (*feed_reason)(void *ctx, struct buffer *out);
    /* Appends the sinks of this relay, each with its last failure, as JSON. */
    enum rc (*sinks)(void *ctx, struct buffer *out);
    void *ctx;
};

/*
 * Accepts connections from gate.admin_listen, and serves them on the loop. Returns NULL after
 * logging the reason. The arguments must outlive the gate. The caller still owns the descriptors.
 * hub is NULL in a process without the role gate, which serves only health probes and metrics.
 * sender is NULL without [webpush] vapid_key_file.
 */
struct gate *gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub,
                       struct web_push_sender *sender, struct stats *stats,
                       const struct gate_process *process, struct gate_sockets sockets);

/*
 * Announces a shutdown: /readyz responds with 503, and clients are still accepted and served.
 * False: without an effect, because no clients are accepted, or gate.notice is 0.
 */
bool gate_notice(struct gate *gate);

/*
 * Starts a graceful shutdown: stops accepting, sends bye 4201 with `in` spread over the drain
 * period, and closes. Calls on_drained after the last connection has closed, or when the period
 * ends.
 */
void gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx);

/*
 * Kill switch. While real-time delivery is off, WebSocket and SSE are closed and rejected; polls
 * are served.
 */
void gate_realtime_set(struct gate *gate, bool on);

/* From now on, verifies tokens with the keys of the config; fetches those of URLs again. */
void gate_reload_keys(struct gate *gate);

/* Checks the JWK Sets in files. RC_BAD: `error`, of at most `room` bytes, is the reason. */
MUST_CHECK enum rc gate_check_keys(const struct config *config, char *error, size_t room);

/* Closes all connections and frees the gate. Accepts NULL. */
void gate_close(struct gate *gate);

#endif
