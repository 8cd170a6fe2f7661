/* sweep.c: one timer checks the timeouts of all connections. */
#include "gate/sweep.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/limits.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "gate/ws/websocket.h"

#define SWEEP_MAX_MS 1000
#define SWEEP_MIN_MS 20
#define TRIM_MIN_CHANGE 1024 /* minimum change of the number of clients for a malloc_trim */
/* the number is stable if it changes less than this between two sweeps */
#define STABLE_MAX_CHANGE 64

struct sweep {
    struct ev_timer timer;
    unsigned iterations_counted;   /* ev_iteration at the last sweep */
    int clients_swept;             /* connections and streams at the last sweep */
    int clients_trimmed;           /* connections and streams at the last malloc_trim */
    int64_t drain_until_us;        /* monotonic */
    void (*on_drained)(void *ctx); /* NULL: not draining, or already called */
    void *drained_ctx;
};

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

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

/* Adds to the counter, so that a replacement worker does not reset it. */
static void
count_loop_iterations(struct gate *gate)
{
    unsigned turns = ev_iteration(gate->loop);

    stats_add(gate->stats, STAT_GATE_TURNS, turns - gate->sweep->iterations_counted);
    gate->sweep->iterations_counted = turns;
}

static void
on_sweep(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    int64_t now_us = clock_monotonic_us();
    int64_t wall_us = clock_wall_us();

    (void)loop;
    (void)events;
    gate_ws_sweep(gate, now_us, wall_us);
    gate_requests_sweep(gate, now_us, wall_us);
    gate_heads_sweep(gate, now_us);
    conns_sweep(gate, now_us);
    trim_memory(gate);
    count_loop_iterations(gate);
    check_drained(gate, now_us); /* may free the gate */
}

/* A quarter of the shortest timeout, so that no timeout is more than 25 % late. */
static int64_t
sweep_ms(const struct config *config)
{
    int64_t ms = SWEEP_MAX_MS * 4;

    ms = smaller(ms, config->gate.ping_ms);
    ms = smaller(ms, config->gate.pong_timeout_ms);
    ms = smaller(ms, config->gate.connect_timeout_ms);
    ms = smaller(ms, config->gate.slow_age_ms);
    ms = smaller(ms, config->gate.keepalive_ms);
    ms /= 4;
    return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms;
}

static void
sweep_every(struct gate *gate, int64_t ms)
{
    gate->sweep->timer.repeat = (double)ms / 1000.0;
    ev_timer_again(gate->loop, &gate->sweep->timer);
}

void
gate_sweep_start(struct gate *gate)
{
    gate->sweep = memory_new(sizeof(*gate->sweep));
    ev_init(&gate->sweep->timer, on_sweep);
    gate->sweep->timer.data = gate;
    sweep_every(gate, sweep_ms(gate->config));
}

void
gate_sweep_drain(struct gate *gate, int64_t window_ms, void (*on_drained)(void *ctx), void *ctx)
{
    gate->sweep->drain_until_us = clock_monotonic_us() + window_ms * 1000;
    gate->sweep->on_drained = on_drained;
    gate->sweep->drained_ctx = ctx;
    sweep_every(gate, SWEEP_MIN_MS);
}

void
gate_sweep_stop(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->sweep->timer);
    free(gate->sweep);
    gate->sweep = NULL;
}
