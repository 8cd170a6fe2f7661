/* ready_list.c: pending work of the current loop iteration. */
#include "hub/ready_list.h"

#include "base/clock.h"
#include "hub/hub_state.h"

#define STEPS (READY_REFILL | READY_ADVANCE)

void
ready_list_send(struct hub *hub, struct session *session)
{
    if (session->is_blocked || (session->ready & READY_SEND) != 0)
        return;
    session->ready |= READY_SEND;
    session->ready_next = NULL;
    if (hub->ready.first == NULL) {
        ev_idle_start(hub->loop, &hub->more); /* the loop must not sleep before the turn */
        hub->ready.first = session;
    } else {
        hub->ready.last->ready_next = session;
    }
    hub->ready.last = session;
    if (hub->ready.probe == NULL) {
        hub->ready.probe = session;
        hub->ready.probe_us = clock_monotonic_us();
    }
}

static void
add_step(struct hub *hub, struct session *session)
{
    session->step_next = NULL;
    if (hub->ready.first_step == NULL) {
        ev_idle_start(hub->loop, &hub->more);
        hub->ready.first_step = session;
    } else {
        hub->ready.last_step->step_next = session;
    }
    hub->ready.last_step = session;
}

void
session_mark(struct session *session, unsigned reason)
{
    if (reason == READY_SEND) {
        ready_list_send(session->hub, session);
        return;
    }
    if ((session->ready & STEPS) == 0)
        add_step(session->hub, session);
    session->ready |= (uint8_t)reason;
}

void
hub_mark(struct hub *hub, unsigned work)
{
    if (hub->ready.work == 0)
        ev_idle_start(hub->loop, &hub->more);
    hub->ready.work |= work;
}

static void
measure_delay(struct ready_list *ready)
{
    int64_t delay_us = clock_monotonic_us() - ready->probe_us;

    if (delay_us > ready->delay_us)
        ready->delay_us = delay_us;
    ready->probe = NULL;
}

struct session *
ready_list_pop(struct hub *hub)
{
    struct session *session = hub->ready.first;

    if (session == NULL)
        return NULL;
    hub->ready.first = session->ready_next;
    session->ready &= STEPS;
    if (session == hub->ready.probe)
        measure_delay(&hub->ready);
    return session;
}

struct session *
ready_list_pop_step(struct hub *hub, unsigned *ret_reasons)
{
    struct session *session = hub->ready.first_step;

    if (session == NULL)
        return NULL;
    hub->ready.first_step = session->step_next;
    *ret_reasons = session->ready & STEPS;
    session->ready &= READY_SEND;
    return session;
}

void
hub_retry(struct hub *hub)
{
    if (!hub->closing && !ev_is_active(&hub->retry))
        ev_timer_again(hub->loop, &hub->retry);
}
