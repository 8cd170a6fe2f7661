/* gate.c: opens, drains and closes the parts of a gate in order; one timer checks all timeouts. */
#include "gate/gate.h"

#include <malloc.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"
#include "gate/net/client_limits.h"
#include "gate/net/listen.h"
#include "gate/routes.h"
#include "gate/ws/websocket.h"

#define SWEEP_MAX_MS 1000
#define SWEEP_MIN_MS 20
#define TRIM_MIN_CHANGE 1024 /* minimum change of the number of clients for a malloc_trim */
/* the number is stable if it changes less than this between two sweeps */
#define STABLE_MAX_CHANGE 64
#define REASON_MAX 256

struct sweep {
    struct ev_timer timer;
    unsigned iterations_counted;   /* ev_iteration at the last sweep */
    int clients_swept;             /* connections and streams at the last sweep */
    int clients_trimmed;           /* connections and streams at the last malloc_trim */
    int64_t drain_until_us;        /* monotonic */
    void (*on_drained)(void *ctx); /* NULL: not draining, or already called */
    void *drained_ctx;
};

/* Runs outside callbacks of connections, so that on_drained may close the gate. */
static void
check_drained(struct gate *gate, int64_t now_us)
{
    struct sweep *sweep = gate->sweep;
    void (*on_drained)(void *ctx) = sweep->on_drained;
    int conns = gate_limits_conns(gate);

    if (on_drained == NULL)
        return;
    if ((conns > 0 || gate->requests->first != NULL) && now_us < sweep->drain_until_us)
        return;
    sweep->on_drained = NULL;
    log_info("gate", "drain finished", LOG_INT("connections_left", conns));
    on_drained(sweep->drained_ctx);
}

/* Returns free heap memory to the system after many clients have connected or disconnected. */
static void
trim_memory(struct gate *gate)
{
    int count = gate_limits_clients(gate);
    bool is_stable = abs(count - gate->sweep->clients_swept) < STABLE_MAX_CHANGE;

    gate->sweep->clients_swept = count;
    if (!is_stable || abs(count - gate->sweep->clients_trimmed) < TRIM_MIN_CHANGE)
        return;
    gate->sweep->clients_trimmed = count;
    (void)malloc_trim(0);
}

static void
on_sweep(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    int64_t now_us = clock_monotonic_us();
    int64_t wall_us = clock_wall_us();
    unsigned iterations = ev_iteration(loop);

    (void)events;
    gate_ws_sweep(gate, now_us, wall_us);
    gate_requests_sweep(gate, now_us, wall_us);
    gate_heads_sweep(gate, now_us);
    conns_sweep(gate, now_us);
    trim_memory(gate);
    /* Adds to the counter, so that a replacement worker does not reset it. */
    stats_add(gate->stats, STAT_GATE_TURNS, iterations - gate->sweep->iterations_counted);
    gate->sweep->iterations_counted = iterations;
    check_drained(gate, now_us); /* may free the gate */
}

/* A quarter of the shortest timeout, so that no timeout is more than 25 % late. */
static int64_t
sweep_ms(const struct config *config)
{
    const int64_t timeouts[] = {config->gate.ping_ms, config->gate.pong_timeout_ms,
                                config->gate.connect_timeout_ms, config->gate.slow_age_ms,
                                config->gate.keepalive_ms};
    int64_t ms = SWEEP_MAX_MS * 4;

    for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++)
        ms = timeouts[i] < ms ? timeouts[i] : ms;
    ms /= 4;
    return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms;
}

static void
sweep_every(struct gate *gate, int64_t ms)
{
    gate->sweep->timer.repeat = (double)ms / 1000.0;
    ev_timer_again(gate->loop, &gate->sweep->timer);
}

/* One cut-off is compared without a search; NULL: all of them. */
static bool
is_rejected(const struct gate *gate, const struct cutoff *cutoff, const struct cutoff_marks *marks,
            int64_t now_s)
{
    return cutoff != NULL ? cutoff_rejects(cutoff, marks, now_s) : gate_cutoffs_reject(gate, marks);
}

/* Called by the hub as well: closes connections, but does not detach their sessions. */
static void
end_rejected(struct gate *gate, const struct cutoff *cutoff)
{
    const int64_t now_s = clock_wall_us() / 1000000;
    struct conn *conn, *next;
    struct gate_request *request;

    DL_FOREACH_SAFE (gate->conns->in[CONN_WEBSOCKET].first, conn, next) {
        struct websocket *ws = conn->owner;

        if (ws->state == WEBSOCKET_OPEN && is_rejected(gate, cutoff, &ws->marks, now_s))
            websocket_close(ws, GATE_CLOSE_BANNED, GATE_CUT_OFF);
    }
    DL_FOREACH (gate->requests->first, request) {
        if (request->state == GATE_REQUEST_OPEN &&
            is_rejected(gate, cutoff, &request->token.marks, now_s))
            request->route->on_end(request, GATE_CLOSE_BANNED, GATE_CUT_OFF, -1);
    }
    if (cutoff == NULL)
        gate_token_retry(gate);
}

struct gate *
gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub,
          struct web_push_sender *sender, struct stats *stats, const struct gate_process *process,
          struct gate_sockets sockets)
{
    struct gate *gate = memory_new(sizeof(*gate));
    char reason[REASON_MAX];

    *gate = (struct gate){.loop = loop,
                          .config = config,
                          .hub = hub,
                          .stats = stats,
                          .opened_us = clock_monotonic_us(),
                          .process = process};
    if (hub != NULL)
        stats_set(stats, STAT_GATE_CONNECTIONS_MAX, (uint64_t)config->gate.max_connections);
    gate_limits_open(gate, gate_ws_evict);
    gate->serve = gate_router_serve;
    conns_open(gate, &GATE_HEAD_EVENTS);
    gate->requests = memory_new(sizeof(*gate->requests));
    gate_token_open(gate);
    gate_ws_open(gate);
    gate_cutoffs_open(gate, end_rejected);
    gate_publish_open(gate);
    gate_web_push_open(gate, sender);
    gate->sweep = memory_new(sizeof(*gate->sweep));
    ev_init(&gate->sweep->timer, on_sweep);
    gate->sweep->timer.data = gate;
    sweep_every(gate, sweep_ms(config));
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

/*
 * Spreads over the drain period when clients reconnect (`in` of the bye). Polls are closed only at
 * shutdown.
 */
static void
end_all(struct gate *gate, int code, const char *reason, int64_t window_ms)
{
    int64_t count = gate_limits_clients(gate);
    struct conn *conn, *next;
    struct gate_request *request;
    int64_t nth = 0;

    DL_FOREACH_SAFE (gate->conns->in[CONN_WEBSOCKET].first, conn, next)
        websocket_close_retry(conn->owner, code, reason, nth++ * window_ms / count);
    DL_FOREACH (gate->requests->first, request) {
        if (request->state == GATE_REQUEST_OPEN &&
            (gate->state == GATE_DRAINING || request->route->accepts_ticket))
            request->route->on_end(request, code, reason, nth++ * window_ms / count);
    }
}

bool
gate_notice(struct gate *gate)
{
    if (gate->config->gate.notice_ms == 0 || !gate_accepts_clients(gate))
        return false;
    gate->state = GATE_NOTICE;
    log_info("gate", "not ready, accepting clients until gate.notice ends",
             LOG_INT("notice_ms", gate->config->gate.notice_ms));
    return true;
}

void
gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx)
{
    int64_t window_ms = gate->config->gate.drain_ms;

    gate_accept_stop(gate);
    gate->state = GATE_DRAINING;
    log_info("gate", "draining connections", LOG_INT("count", gate_limits_conns(gate)));
    while (conns_evict_kept(gate))
        ;
    end_all(gate, GATE_CLOSE_RESTART, "relay is restarting", window_ms);
    gate->sweep->drain_until_us = clock_monotonic_us() + window_ms * 1000;
    gate->sweep->on_drained = on_drained;
    gate->sweep->drained_ctx = ctx;
    sweep_every(gate, SWEEP_MIN_MS);
}

void
gate_realtime_set(struct gate *gate, bool on)
{
    if (gate->is_realtime_off == !on)
        return;
    gate->is_realtime_off = !on;
    stats_set(gate->stats, STAT_GATE_REALTIME_OFF, on ? 0 : 1);
    if (on)
        log_info("gate", "real-time delivery enabled");
    else
        log_warn("gate", "real-time delivery disabled: WebSocket and SSE rejected");
    if (!on)
        end_all(gate, GATE_CLOSE_OVERLOADED, "real-time delivery is off, use /v1/poll",
                gate->config->gate.drain_ms);
}

void
gate_reload_keys(struct gate *gate)
{
    gate_token_reload_keys(gate);
}

enum rc
gate_check_keys(const struct config *config, char *error, size_t room)
{
    return gate_keys_check(config, error, room);
}

void
gate_close(struct gate *gate)
{
    if (gate == NULL)
        return;
    gate_accept_stop(gate);
    ev_timer_stop(gate->loop, &gate->sweep->timer);
    free(gate->sweep);
    conns_close(gate);
    carrier_close(gate);
    gate_accept_free(gate);
    gate_ws_close(gate);
    free(gate->requests);
    gate_cutoffs_close(gate);
    gate_token_close(gate);
    gate_publish_close(gate);
    gate_web_push_close(gate);
    gate_limits_free(gate);
    free(gate);
}
