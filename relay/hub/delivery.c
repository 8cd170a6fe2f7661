/*
 * delivery.c: the outcomes of a notification in a session: it is queued, deferred, dropped or
 * skipped. What is queued and needs an acknowledgement is in flight (inflight.c).
 */
#include "hub/hub_private.h"

#include <string.h>

#include "base/memory.h"

static struct inflight_entry *
find(const struct session *session, const struct notification *notification)
{
    return inflight_find(&session->inflight, notification->frame.as.notification.id);
}

/* ---- queueing */

/*
 * The notification remains pending. Each connection that does not receive it for its topics reports
 * that once, for its trace.
 */
static void
skip_topic(struct session *session, const struct notification *notification)
{
    if (notification->needs_ack &&
        topics_skip(session->topics, notification->shard, notification->id))
        session_report_unsubscribed(session, notification);
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

/*
 * The user's pending list has the notification from its commit on only if the user is a target. For
 * a group, the user may have joined later, or have it by token: the store is asked, and a
 * notification that the user does not have to acknowledge is sent immediately.
 */
static void
defer(struct session *session, struct notification *notification)
{
    struct session_pending *pending = &session->pending;
    const struct frame_notification *frame = &notification->frame.as.notification;
    const struct bytes user = {(const unsigned char *)"USER", 4};

    if (!session->has_deferral) {
        session->has_deferral = true;
        pending->deferral = (struct deferral){.from = session_reached(session)};
    }
    if (pending->pass != PASS_DUE) {
        pending->pass = PASS_DUE;
        pending->filled = 0;
        pending->at = pending->deferral.from;
    }
    session_mark(session, READY_REFILL);
    if (!bytes_equal(frame->audience, user) && !session_query_recipient(session, notification))
        pending->deferral.by_stream = true;
}

void
session_admit(struct session *session, struct notification *notification)
{
    const struct session_pending *pending = &session->pending;

    if (!topics_match(session->topics, notification->frame.as.notification.topic)) {
        skip_topic(session, notification);
        return;
    }
    if (notification_is_expired(notification)) {
        session_gap_later(session, session->cursor, "expired");
        return;
    }
    if (!session->is_poll && shed_drops(session->hub, notification)) {
        session_count_shed(session, notification);
        return;
    }
    if (notification->needs_ack) {
        if (find(session, notification) != NULL)
            return; /* queued or delivered */
        if (pending->pass == PASS_DUE || pending->is_rewound ||
            inflight_free_slots(&session->inflight) <= 0) {
            defer(session, notification);
            ends_note_held(session, notification);
            return;
        }
        inflight_add(&session->inflight, notification, INFLIGHT_OPEN);
    }
    notification = ends_note(session, notification);
    queue(session, notification);
    notification_unref(notification);
}

/* A retry that was not queued after the notification was written is sent again. */
static bool
repeats(struct inflight_entry *entry)
{
    const bool is_repeated = entry->is_missed && entry->is_written && entry->state == INFLIGHT_OPEN;

    entry->is_missed = false;
    entry->is_written = entry->is_written && !is_repeated;
    return is_repeated;
}

bool
session_admit_pending(struct session *session, struct notification *notification,
                      enum inflight_state state, bool is_new)
{
    struct inflight_entry *entry = find(session, notification);

    if (!topics_match(session->topics, notification->frame.as.notification.topic)) {
        if (state == INFLIGHT_OPEN)
            skip_topic(session, notification);
        return true;
    }
    if (entry != NULL) { /* unless it is a retry, the page is older than the retry */
        if (notification->is_retry && repeats(entry))
            queue(session, notification);
        return true;
    }
    if (notification_is_expired(notification)) {
        if (is_new) /* otherwise it is in the error log */
            session_gap_later(session, session->cursor, "expired");
        return true;
    }
    if (state == INFLIGHT_OPEN && inflight_free_slots(&session->inflight) <= 0)
        return false;
    inflight_add(&session->inflight, notification, state);
    session->pending.filled += state == INFLIGHT_OPEN;
    notification = ends_note_listed(session, notification);
    queue(session, notification);
    notification_unref(notification);
    return true;
}

/* ---- offers */

/* A slow client occupies no more than its queue: it reads later notifications from the store. */
void
session_pause(struct session *session)
{
    if (session->state != SESSION_LIVE)
        return;
    /* excludes the notification that is being offered */
    session->cursor = session_reached(session);
    session_set_state(session, SESSION_STREAM);
}

void
session_offer(struct session *session, struct notification *notification)
{
    if (session->state == SESSION_STREAM && session->is_blocked)
        session->stall.skipped_bytes += notification->text_len;
    if (session->state != SESSION_LIVE ||
        !cursor_is_before(&session->cursor, notification->shard, notification->id))
        return;
    if (session_is_full(session)) {
        session->stall.skipped_bytes += notification->text_len;
        session_pause(session);
        return;
    }
    session_admit(session, notification);
    cursor_advance(&session->cursor, notification->shard, notification->id);
}

/* Sessions that queue the same batches share the results. */
static struct merged_batch *
merged_of(struct hub *hub, const struct session *session)
{
    return session->has_ends ? &hub->ends.shared[session->client.own_shard].merged_messages
                             : &hub->merged;
}

void
session_offer_batch(struct hub *hub, struct session *session, struct fanout_batch *batch)
{
    const struct notification *first = batch->notifications[0];

    if (session->state == SESSION_LIVE &&
        cursor_is_before(&session->cursor, first->shard, first->id)) {
        if ((session->has_topics &&
             !topics_match(session->topics, first->frame.as.notification.topic)) ||
            ((!session->has_ends || ends_note_batch(session, batch)) &&
             session_queue_batch(hub, session, batch, merged_of(hub, session)))) {
            *cursor_in(&session->cursor, first->shard) = batch->notifications[batch->count - 1]->id;
            return;
        }
    }
    for (unsigned i = 0; i < batch->count; i++)
        session_offer(session, batch->notifications[i]);
}

void
session_mark_retry(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry = find(session, notification);

    if (entry == NULL)
        return;
    entry->is_missed = true;
    if (entry->attempts < notification->frame.as.notification.attempts)
        entry->attempts = notification->frame.as.notification.attempts;
}

/* A retry that cannot be queued now is in the pending list. */
void
session_offer_retry(struct session *session, struct notification *notification)
{
    const struct session_pending *pending = &session->pending;

    if (session->state < SESSION_PENDING)
        return; /* the pending list is read later */
    session_mark_retry(session, notification);
    if (session->state != SESSION_LIVE || session_is_full(session) ||
        ((pending->pass == PASS_DUE || pending->is_rewound) &&
         find(session, notification) == NULL) ||
        !session_admit_pending(session, notification, INFLIGHT_OPEN, false)) {
        session_rewind(session);
        return;
    }
    cursor_advance(&session->cursor, notification->shard, notification->id);
}
