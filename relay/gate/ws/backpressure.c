/*
 * backpressure.c: pauses reading from clients that send too fast; TCP flow control then slows them
 * down.
 */
#include "gate/ws/backpressure.h"

#include "base/clock.h"
#include "gate/net/gate_shared.h"

#define RESUME_INTERVAL_S 0.02

void
gate_pause_reading(struct websocket *ws)
{
    struct gate *gate = ws->gate;

    conn_pause(ws->conn);
    ws->inbound.is_paused = true;
    ws->inbound.next_paused = gate->websockets->paused;
    gate->websockets->paused = ws;
    if (!ev_is_active(&gate->websockets->resume_timer))
        ev_timer_again(gate->loop, &gate->websockets->resume_timer);
}

void
gate_backpressure_remove(struct websocket *ws)
{
    struct gate *gate = ws->gate;
    struct websocket **at = &gate->websockets->paused;

    if (!ws->inbound.is_paused)
        return;
    while (*at != ws)
        at = &(*at)->inbound.next_paused;
    *at = ws->inbound.next_paused;
    ws->inbound.is_paused = false;
}

static void
on_resume_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    int64_t now_us = clock_monotonic_us();

    (void)events;
    for (struct websocket *ws = gate->websockets->paused, *next; ws != NULL; ws = next) {
        next = ws->inbound.next_paused;
        if (ws->inbound.budget_until_us > now_us + GATE_BURST_US)
            continue;
        gate_backpressure_remove(ws);
        conn_resume(ws->conn);
    }
    if (gate->websockets->paused == NULL)
        ev_timer_stop(loop, timer);
}

void
gate_backpressure_open(struct gate *gate)
{
    ev_init(&gate->websockets->resume_timer, on_resume_timer);
    gate->websockets->resume_timer.repeat = RESUME_INTERVAL_S;
    gate->websockets->resume_timer.data = gate;
}

void
gate_backpressure_close(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->websockets->resume_timer);
}

void
gate_stop_reading(struct websocket *ws)
{
    conn_pause(ws->conn);
    gate_backpressure_remove(ws);
}
