/* hold.c: pauses reading from clients that send too fast: TCP makes them wait. */
#include "gate/ws/hold.h"

#include "base/clock.h"
#include "gate/net/gate_shared.h"

#define UNHOLD_S 0.02

void
gate_hold(struct gate_conn *conn)
{
    struct gate *gate = conn->gate;

    ev_io_stop(gate->loop, &conn->readable);
    conn->inflow.is_held = true;
    conn->inflow.next_held = gate->conns->held;
    gate->conns->held = conn;
    if (!ev_is_active(&gate->conns->unhold))
        ev_timer_again(gate->loop, &gate->conns->unhold);
}

static void
unhold(struct gate_conn *conn)
{
    struct gate *gate = conn->gate;
    struct gate_conn **at = &gate->conns->held;

    if (!conn->inflow.is_held)
        return;
    while (*at != conn)
        at = &(*at)->inflow.next_held;
    *at = conn->inflow.next_held;
    conn->inflow.is_held = false;
}

static void
on_unhold(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    int64_t now_us = clock_monotonic_us();

    (void)events;
    for (struct gate_conn *conn = gate->conns->held, *next; conn != NULL; conn = next) {
        next = conn->inflow.next_held;
        if (conn->inflow.paid_until_us > now_us + GATE_PREPAID_US)
            continue;
        unhold(conn);
        ev_io_start(loop, &conn->readable);
        if (conn->io.ssl != NULL) /* poll does not see what OpenSSL has read already */
            ev_feed_event(loop, &conn->readable, EV_READ);
    }
    if (gate->conns->held == NULL)
        ev_timer_stop(loop, timer);
}

void
gate_hold_open(struct gate *gate)
{
    ev_init(&gate->conns->unhold, on_unhold);
    gate->conns->unhold.repeat = UNHOLD_S;
    gate->conns->unhold.data = gate;
}

void
gate_hold_close(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->conns->unhold);
}

void
gate_stop_reading(struct gate_conn *conn)
{
    ev_io_stop(conn->gate->loop, &conn->readable);
    unhold(conn);
}
