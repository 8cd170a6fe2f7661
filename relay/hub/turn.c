/* turn.c: processes the ready list at the end of each loop iteration. */
#include "hub/turn.h"

#include <utlist.h>

#include "base/clock.h"
#include "hub/ack_queue.h"
#include "hub/delivery_reports.h"
#include "hub/send.h"
#include "hub/publish.h"
#include "hub/resume.h"
#include "hub/hub_state.h"
#include "hub/ready_list.h"
#include "hub/state.h"

#define SENDS_PER_TURN 256

/* Prefetches the next two sessions while one sends: there are many, far apart in memory. */
static void
prefetch_sessions(const struct session *next)
{
    if (next == NULL)
        return;
    __builtin_prefetch(next->socket.handle);
    if (next->ready_next != NULL)
        __builtin_prefetch(&next->ready_next->outbound.batch);
}

static void
run_hub_work(struct hub *hub)
{
    unsigned work = hub->ready.work;

    hub->ready.work = 0;
    if (hub->closing)
        return;
    if ((work & HUB_FLUSH) != 0) {
        delivery_reports_apply(hub);
        acks_flush(hub);
    }
    if ((work & HUB_REFILL) != 0 && hub->acks.queued.count == 0)
        refills_wake(hub);
}

static void
run_steps(struct hub *hub)
{
    struct session *session;
    unsigned reasons;

    while ((session = ready_list_pop_step(hub, &reasons)) != NULL) {
        if (session->state == SESSION_CLOSED) {
            session_free_if_done(session);
            continue;
        }
        if ((reasons & READY_REFILL) != 0 && session_refill(session))
            reasons |= READY_ADVANCE;
        if ((reasons & READY_ADVANCE) != 0)
            session_advance(session);
    }
}

/* This loop ends, because replies to these requests arrive in later turns. */
static void
run_pending_work(struct hub *hub)
{
    do {
        run_hub_work(hub);
        run_steps(hub);
    } while (hub->ready.work != 0);
}

void
hub_publish(struct hub *hub)
{
    if (hub->unpublished_count == 0)
        return;
    run_pending_work(hub);
    publish_unpublished(hub);
}

bool
hub_send_some(struct hub *hub, unsigned max)
{
    struct session *session;

    run_pending_work(hub);
    hub->sending_us = clock_wall_us();
    do {
        while (max > 0 && (session = ready_list_pop(hub)) != NULL) {
            max--;
            prefetch_sessions(hub->ready.first);
            if (session->state == SESSION_CLOSED)
                session_free_if_done(session);
            else
                session_send(hub, session);
        }
        run_pending_work(hub);
    } while (max > 0 && hub->ready.first != NULL);
    return hub->ready.first != NULL;
}

static void
on_more(struct ev_loop *loop, ev_idle *idle, int events)
{
    (void)loop; /* keeps the loop awake; on_turn does the work */
    (void)idle;
    (void)events;
}

/* Runs before the loop sleeps. Limited, so that acks and new connections are served in between. */
static void
on_turn(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    struct hub *hub = prepare->data;

    (void)events;
    hub_publish(hub);
    hub->list_frames = 0;
    if (hub_send_some(hub, SENDS_PER_TURN))
        ev_idle_start(loop, &hub->more);
    else
        ev_idle_stop(loop, &hub->more);
}

void
turn_start(struct hub *hub)
{
    ev_idle_init(&hub->more, on_more);
    ev_prepare_init(&hub->turn, on_turn);
    hub->turn.data = hub;
    ev_prepare_start(hub->loop, &hub->turn);
}

void
turn_stop(struct hub *hub)
{
    ev_prepare_stop(hub->loop, &hub->turn);
    ev_idle_stop(hub->loop, &hub->more);
}
