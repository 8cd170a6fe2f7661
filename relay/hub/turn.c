/*
 * turn.c: a loop iteration: offers new notifications to the sessions of their audiences, does the
 * pending work of sessions, and sends.
 */
#include "hub/hub_private.h"

#include <utlist.h>

#include "base/clock.h"

/* ---- new notifications */

/* Sends a retry to users with a pending ack who still belong to the audience. */
static void
offer_retry(struct hub *hub, struct notification *notification)
{
    struct bytes users = notification->retry_users;
    struct bytes user;
    struct audience *audience;
    struct membership *member;

    while (frame_next_target(&users, &user) == RC_OK) {
        audience = hub_find_user(hub, user);
        if (audience == NULL)
            continue;
        DL_FOREACH (audience->members, member) {
            if (session_is_recipient(member->session, &notification->frame))
                session_offer_retry(member->session, notification);
            else
                /* sent if the user joins again */
                session_mark_retry(member->session, notification);
        }
    }
}

static void
offer_one(struct hub *hub, struct session *session, struct notification *notification,
          struct fanout_batch *batch)
{
    if (batch != NULL)
        session_offer_batch(hub, session, batch);
    else
        session_offer(session, notification);
}

/* `batch` contains only this notification, or several with the same recipients. */
static void
offer_to(struct hub *hub, const char *key, size_t len, struct notification *notification,
         struct fanout_batch *batch)
{
    struct audience *audience = audience_find(hub->audiences, key, len);
    struct membership *member;

    if (audience == NULL)
        return;
    DL_FOREACH (audience->members, member) {
        if (member->next != NULL) { /* there may be many members, far apart in memory */
            __builtin_prefetch(member->next->next);
            __builtin_prefetch(&member->next->session->outbound.batch);
        }
        offer_one(hub, member->session, notification, batch);
    }
}

/*
 * Offers the notification to members of all parts of a target. A session is compared once, even if
 * it belongs to the groups of many targets.
 */
static void
offer_to_composite(struct hub *hub, struct notification *notification, struct fanout_batch *batch)
{
    const struct frame_notification *frame = &notification->frame.as.notification;
    struct audience_match match;
    struct membership *member;

    audience_match_begin(&match, hub->audiences, frame->audience, frame->targets,
                         frame->target_count);
    for (size_t i = 0; i < match.candidate_count; i++) {
        DL_FOREACH (match.candidates[i]->members, member) {
            struct session_groups *groups = &member->session->groups;

            if (groups->compared == match.number)
                continue;
            groups->compared = match.number;
            if (audience_match_has(&match, groups->memberships))
                offer_one(hub, member->session, notification, batch);
        }
    }
    audience_match_end(&match);
}

static void
offer(struct hub *hub, struct notification *notification, struct fanout_batch *batch)
{
    const struct frame_notification *frame = &notification->frame.as.notification;
    struct bytes targets = frame->targets;
    struct bytes target;
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    if (audience_is_all(frame->audience)) {
        offer_to(hub, AUDIENCE_ALL, sizeof(AUDIENCE_ALL) - 1, notification, batch);
        return;
    }
    if (audience_is_composite(frame->audience)) {
        offer_to_composite(hub, notification, batch);
        return;
    }
    while (frame_next_target(&targets, &target) == RC_OK) {
        if (audience_key(frame->audience, target, key, &len))
            offer_to(hub, key, len, notification, batch);
    }
}

/* Offers the first notifications, up to the end of a batch. Returns their number. */
static unsigned
offer_some(struct hub *hub, struct notification **notifications, unsigned count)
{
    unsigned span = fanout_batch_span(notifications, shed_count_kept(hub, notifications, count));
    struct fanout_batch *batch = span > 0 ? fanout_batch_new(notifications, span) : NULL;

    if (notifications[0]->is_retry)
        offer_retry(hub, notifications[0]);
    else
        offer(hub, notifications[0], batch);
    merged_batch_end(&hub->merged);
    for (unsigned own = 0; hub->ends.is_used && own < hub->shards; own++)
        merged_batch_end(&hub->ends.shared[own].merged_messages);
    fanout_batch_unref(batch);
    return span > 0 ? span : 1;
}

/* ---- the turn */

#define SENDS_PER_TURN 256

/* The loop ends, because replies to these requests arrive in later turns. */
static void
do_pending_work(struct hub *hub)
{
    struct session *session;
    unsigned work, reasons;

    do {
        work = hub->closing ? 0 : hub->ready.work;
        hub->ready.work = 0;
        if ((work & HUB_FLUSH) != 0) {
            pair_requests_apply(hub);
            acks_flush(hub);
        }
        if ((work & HUB_ENDS) != 0)
            ends_advance(hub);
        if ((work & HUB_BARRIERS) != 0)
            barriers_advance(hub);
        if ((work & HUB_REFILL) != 0 && hub->acks.queued.count == 0)
            refills_wake(hub);
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
    } while (hub->ready.work != 0);
}

void
hub_fan_out(struct hub *hub)
{
    unsigned at = 0;

    if (hub->unoffered_count == 0)
        return;
    do_pending_work(hub);
    while (at < hub->unoffered_count) {
        unsigned done = offer_some(hub, hub->unoffered + at, hub->unoffered_count - at);

        for (unsigned end = at + done; at < end; at++) {
            replay_buffer_add(&hub->replay_buffer, hub->unoffered[at]);
            ends_offered(hub, hub->unoffered[at]);
            notification_unref(hub->unoffered[at]);
        }
    }
    hub->unoffered_count = 0;
}

bool
hub_send_some(struct hub *hub, unsigned max)
{
    struct session *session;

    do_pending_work(hub);
    hub->sending_us = clock_wall_us();
    do {
        while (max > 0 && (session = ready_list_pop(hub)) != NULL) {
            max--;
            /* Prefetches the next two sessions: there are many, far apart in memory. */
            if (hub->ready.first != NULL) {
                __builtin_prefetch(hub->ready.first->socket.handle);
                if (hub->ready.first->ready_next != NULL)
                    __builtin_prefetch(&hub->ready.first->ready_next->outbound.batch);
            }
            if (session->state == SESSION_CLOSED)
                session_free_if_done(session);
            else
                session_send(hub, session);
        }
        do_pending_work(hub);
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
    hub_fan_out(hub);
    if (hub->barriers.in_session_count > 0)
        barriers_advance(hub);
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
