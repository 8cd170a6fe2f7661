/* publish.c: offers new notifications to the sessions of their audiences. */
#include "hub/publish.h"

#include <utlist.h>

#include "hub/offer.h"
#include "hub/hub_state.h"
#include "hub/members.h"
#include "hub/shed.h"

/* Sends a retry to users with a pending ack who still belong to the audience. */
static void
publish_retry(struct hub *hub, struct notification *notification)
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
                session_miss_retry(member->session, notification);
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
publish_some(struct hub *hub, struct notification **notifications, unsigned count)
{
    unsigned span = fanout_batch_span(notifications, shed_count_kept(hub, notifications, count));
    struct fanout_batch *batch = span > 0 ? fanout_batch_new(notifications, span) : NULL;

    if (notifications[0]->is_retry)
        publish_retry(hub, notifications[0]);
    else
        offer(hub, notifications[0], batch);
    merged_batch_end(&hub->merged);
    fanout_batch_unref(batch);
    return span > 0 ? span : 1;
}

void
publish_unpublished(struct hub *hub)
{
    unsigned at = 0;

    while (at < hub->unpublished_count) {
        unsigned done = publish_some(hub, hub->unpublished + at, hub->unpublished_count - at);

        for (unsigned end = at + done; at < end; at++) {
            replay_buffer_add(&hub->replay_buffer, hub->unpublished[at]);
            notification_unref(hub->unpublished[at]);
        }
    }
    hub->unpublished_count = 0;
}
