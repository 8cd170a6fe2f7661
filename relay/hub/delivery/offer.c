/* offer.c: decides whether a session queues, drops or skips a notification. */
#include "hub/delivery/offer.h"

#include "hub/delivery/session_inflight.h"
#include "hub/delivery/stall.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/members.h"
#include "hub/session/cursors.h"
#include "hub/session/queue.h"
#include "hub/session/shed.h"
#include "hub/session/state.h"

static bool
is_new(const struct session *session, const struct notification *notification)
{
    return cursor_is_before(&session->cursor, notification->shard, notification->id);
}

/* The notification expired before it was queued. If it is new, a gap is announced. */
static void
report_expired(struct session *session, const struct notification *notification)
{
    if (!notification->is_retry &&
        is_new(session, notification)) /* otherwise it was sent earlier, or is in the error log */
        session_gap_later(session, session->cursor, "expired");
}

/*
 * A poll resumes from the cursor of its last notification: a notification that would report an
 * earlier cursor is sent with the session's cursor instead.
 */
static void
queue(struct session *session, struct notification *notification)
{
    struct cursor cursor = session->cursor;
    struct notification *moved;

    if (!session->is_poll ||
        cursor_reaches(notification_cursor(notification, session->client.own_shard), cursor)) {
        session_queue(session, notification);
        return;
    }
    if (!notification->is_retry)
        cursor_advance(&cursor, notification->shard, notification->id);
    moved = session_notification_at(session, notification, cursor, NULL);
    session_queue(session, moved);
    notification_unref(moved);
}

static void
enqueue(struct session *session, struct notification *notification,
        bool (*enter)(struct session *session, struct notification *notification))
{
    if (notification_is_expired(notification))
        report_expired(session, notification);
    else if (!session->is_poll && shed_drops(session->hub, notification))
        session_count_shed(session, notification);
    else if (!notification->needs_ack || enter(session, notification))
        queue(session, notification);
}

/* Hides a notification outside the session's topics. A pending ack remains pending. */
static bool
is_hidden(const struct session *session, const struct notification *notification)
{
    return !subscription_has(&session->subscription, notification->frame.as.notification.topic);
}

void
session_enqueue(struct session *session, struct notification *notification)
{
    if (is_hidden(session, notification))
        session_inflight_hide(session, notification);
    else
        enqueue(session, notification, session_inflight_add);
}

void
session_enqueue_from_inbox(struct session *session, struct notification *notification)
{
    if (is_hidden(session, notification))
        session_inflight_hide_from_inbox(session, notification);
    else
        enqueue(session, notification, session_inflight_add_from_inbox);
}

void
session_enqueue_held(struct session *session, struct notification *notification)
{
    if (session->state == SESSION_CLOSED || !session_is_recipient(session, &notification->frame) ||
        is_hidden(session, notification))
        return;
    if (session->outbound.count >= OUTBOUND_MAX)
        session_gap_of(session, notification, "shed");
    else
        session_queue(session, notification);
}

/* A slow client occupies no more than its queue: it reads later notifications from the store. */
void
session_pause(struct session *session)
{
    if (session->state != SESSION_LIVE)
        return;
    /* excludes the notification that is being offered */
    session->cursor = session_reached(session);
    session_set_state(session, SESSION_CATCHING_UP);
}

void
session_offer(struct session *session, struct notification *notification)
{
    if (session->state == SESSION_CATCHING_UP && session->is_blocked)
        session_count_skipped(session, notification->text_len);
    if (session->state != SESSION_LIVE || !is_new(session, notification))
        return;
    if (session_is_full(session)) {
        session_count_skipped(session, notification->text_len);
        session_pause(session);
        return;
    }
    session_enqueue(session, notification);
    cursor_advance(&session->cursor, notification->shard, notification->id);
}

void
session_offer_batch(struct hub *hub, struct session *session, struct fanout_batch *batch)
{
    const struct notification *first = batch->notifications[0];

    if (session->state == SESSION_LIVE && is_new(session, first)) {
        if ((session->has_topics &&
             !subscription_has(&session->subscription, first->frame.as.notification.topic)) ||
            session_queue_batch(hub, session, batch)) {
            *cursor_in(&session->cursor, first->shard) = batch->notifications[batch->count - 1]->id;
            return;
        }
    }
    for (unsigned i = 0; i < batch->count; i++)
        session_offer(session, batch->notifications[i]);
}

void
session_offer_retry(struct session *session, struct notification *notification)
{
    if (session->state < SESSION_INBOX)
        return; /* the retry is in the inbox, which is read later */
    session_inflight_missed(session, notification);
    if (session->state == SESSION_LIVE && !session_is_full(session)) {
        session_enqueue(session, notification);
        cursor_advance(&session->cursor, notification->shard, notification->id);
        return;
    }
    inbox_miss(&session->inbox);
    session_defer_inbox(session);
}
