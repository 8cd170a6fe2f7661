/*
 * backpressure.c: pauses reading from clients that send too fast; TCP flow control then slows them
 * down.
 */
#include "gate/ws/backpressure.h"

#include "base/clock.h"
#include "gate/net/gate_shared.h"

#define RESUME_INTERVAL_S 0.02

void
gate_pause_reading(struct gate_conn *conn)
{
    struct gate *gate = conn->gate;

    ev_io_stop(gate->loop, &conn->readable);
    conn->inbound.is_paused = true;
    conn->inbound.next_paused = gate->conns->paused;
    gate->conns->paused = conn;
    if (!ev_is_active(&gate->conns->resume_timer))
        ev_timer_again(gate->loop, &gate->conns->resume_timer);
}

static void
paused_remove(struct gate_conn *conn)
{
    struct gate *gate = conn->gate;
    struct gate_conn **at = &gate->conns->paused;

    if (!conn->inbound.is_paused)
        return;
    while (*at != conn)
        at = &(*at)->inbound.next_paused;
    *at = conn->inbound.next_paused;
    conn->inbound.is_paused = false;
}

static void
on_resume_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    int64_t now_us = clock_monotonic_us();

    (void)events;
    for (struct gate_conn *conn = gate->conns->paused, *next; conn != NULL; conn = next) {
        next = conn->inbound.next_paused;
        if (conn->inbound.budget_until_us > now_us + GATE_BURST_US)
            continue;
        paused_remove(conn);
        ev_io_start(loop, &conn->readable);
        if (conn_io_is_tls(&conn->io)) /* poll(2) does not report bytes in OpenSSL's buffer */
            ev_feed_event(loop, &conn->readable, EV_READ);
    }
    if (gate->conns->paused == NULL)
        ev_timer_stop(loop, timer);
}

void
gate_backpressure_open(struct gate *gate)
{
    ev_init(&gate->conns->resume_timer, on_resume_timer);
    gate->conns->resume_timer.repeat = RESUME_INTERVAL_S;
    gate->conns->resume_timer.data = gate;
}

void
gate_backpressure_close(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->conns->resume_timer);
}

void
gate_stop_reading(struct gate_conn *conn)
{
    ev_io_stop(conn->gate->loop, &conn->readable);
    paused_remove(conn);
}
