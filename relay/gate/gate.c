/* gate.c: opens, drains and closes the parts of a gate in order. */
#include "gate/gate.h"

#include <stdlib.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/api/publish.h"
#include "gate/http/request.h"
#include "gate/net/listen.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"
#include "gate/net/limits.h"
#include "gate/router.h"
#include "gate/sweep.h"
#include "gate/ws/websocket.h"

#define REASON_MAX 256

static struct token_rules
rules_of(const struct config *config)
{
    return (struct token_rules){
        .kind = config->auth.public_key_file != NULL ? TOKEN_KEY_PEM : TOKEN_KEY_HS256,
        .key = config->auth.key,
        .key_len = config->auth.key_len,
        .previous = config->auth.previous,
        .previous_len = config->auth.previous_len,
        .issuer = config->auth.issuer,
        .audience = config->auth.audience,
        .leeway_s = config->auth.leeway_ms / 1000,
    };
}

struct gate *
gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub, struct stats *stats,
          const struct gate_process *process, struct gate_sockets sockets)
{
    struct gate *gate = memory_new(sizeof(*gate));
    char reason[REASON_MAX];

    *gate = (struct gate){.loop = loop,
                          .config = config,
                          .hub = hub,
                          .stats = stats,
                          .opened_us = clock_monotonic_us(),
                          .process = process,
                          .rules = rules_of(config)};
    if (hub != NULL)
        stats_set(stats, STAT_GATE_CONNECTIONS_MAX, (uint64_t)config->gate.max_connections);
    gate_limits_open(gate, gate_ws_evict);
    gate->serve = gate_router_serve;
    conns_open(gate, &GATE_HEAD_EVENTS);
    gate_requests_open(gate);
    gate_ws_open(gate);
    gate_publish_open(gate);
    gate_sweep_start(gate);
    if (carrier_open(gate, reason, sizeof(reason)) == RC_OK &&
        gate_tls_set_ciphers(gate, reason, sizeof(reason)) == RC_OK) {
        gate_accept_start(gate, sockets);
        gate_tls_report_expiry(gate);
        return gate;
    }
    log_error("gate", "could not start the gate",
              LOG_TEXT("listen", hub != NULL ? config->gate.listen : config->gate.admin_listen),
              LOG_TEXT("error", reason));
    gate_close(gate);
    return NULL;
}

enum rc
gate_accept(struct gate *gate)
{
    return gate_accept_clients(gate);
}

/*
 * Spreads the closes over the drain period, so that clients do not reconnect simultaneously. Polls
 * are closed only at shutdown.
 */
static void
end_all(struct gate *gate, int code, const char *reason, int64_t window_ms)
{
    int64_t count = gate_limits_clients(gate);
    struct websocket *ws;
    struct gate_request *request;
    int64_t nth = 0;

    DL_FOREACH (gate->websockets->first, ws)
        websocket_close_retry(ws, code, reason, nth++ * window_ms / count);
    DL_FOREACH (gate->requests->first, request) {
        if (request->state == GATE_REQUEST_OPEN &&
            (gate->draining || request->route->accepts_ticket))
            request->route->on_end(request, code, reason, nth++ * window_ms / count);
    }
}

void
gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx)
{
    int64_t window_ms = gate->config->gate.drain_ms;

    gate_accept_stop(gate);
    gate->draining = true;
    log_info("gate", "draining connections", LOG_INT("count", gate_limits_conns(gate)));
    while (conns_evict_kept(gate))
        ;
    end_all(gate, GATE_CLOSE_RESTART, "relay is restarting", window_ms);
    gate_sweep_drain(gate, window_ms, on_drained, ctx);
}

void
gate_push_set(struct gate *gate, bool on)
{
    if (gate->is_push_off == !on)
        return;
    gate->is_push_off = !on;
    stats_set(gate->stats, STAT_GATE_PUSH_OFF, on ? 0 : 1);
    if (on)
        log_info("gate", "push enabled");
    else
        log_warn("gate", "push disabled: WebSocket and SSE rejected");
    if (!on)
        end_all(gate, GATE_CLOSE_OVERLOADED, "push is off, use /v1/poll",
                gate->config->gate.drain_ms);
}

void
gate_reload_keys(struct gate *gate)
{
    gate->rules = rules_of(gate->config);
}

void
gate_close(struct gate *gate)
{
    if (gate == NULL)
        return;
    gate_accept_stop(gate);
    gate_sweep_stop(gate);
    conns_close(gate);
    carrier_close(gate);
    gate_accept_free(gate);
    gate_ws_close(gate);
    gate_requests_close(gate);
    gate_publish_close(gate);
    gate_limits_free(gate);
    free(gate);
}
