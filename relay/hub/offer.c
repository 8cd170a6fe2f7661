/*
 * offer.c: decides whether a session queues, defers, drops or skips a notification, and keeps those
 * in flight until they are acknowledged.
 */
#include "hub/offer.h"

#include <string.h>

#include "base/memory.h"
#include "hub/report_queue.h"
#include "hub/stall.h"
#include "hub/control.h"
#include "hub/cursors.h"
#include "hub/gap.h"
#include "hub/hub_state.h"
#include "hub/members.h"
#include "hub/queue.h"
#include "hub/ready_list.h"
#include "hub/shed.h"
#include "hub/state.h"

static struct inflight_entry *
find(const struct session *session, const struct notification *notification)
{
    return inflight_find(&session->inflight, notification->frame.as.notification.id);
}

/* ---- queueing */

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
    const struct bytes user = {(const unsigned char *)"USER", 4};

    if (!session->is_deferred) {
        session->is_deferred = true;
        pending->deferral = (struct deferral){.from = session_reached(session)};
    }
    if (!pending->is_due) {
        pending->is_due = true;
        pending->filled = 0;
        pending->at = pending->deferral.from;
    }
    session_mark(session, READY_REFILL);
    if (!bytes_equal(notification->frame.as.notification.audience, user) &&
        !delivery_report_defer(session, notification))
        pending->deferral.by_stream = true;
}

void
session_enqueue(struct session *session, struct notification *notification)
{
    const struct session_pending *pending = &session->pending;

    if (!subscription_has(&session->subscription, notification->frame.as.notification.topic))
        return; /* a pending ack remains pending */
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
        if (pending->is_due || pending->is_rewound ||
            inflight_free_slots(&session->inflight) <= 0) {
            defer(session, notification);
            return;
        }
        inflight_add(&session->inflight, notification, INFLIGHT_OPEN);
    }
    queue(session, notification);
}

/* A retry that was not queued after the notification was written is sent again. */
static bool
repeats(struct inflight_entry *entry)
{
    const bool is_repeated = entry->is_missed && entry->is_written && entry->end == INFLIGHT_OPEN;

    entry->is_missed = false;
    entry->is_written = entry->is_written && !is_repeated;
    return is_repeated;
}

bool
session_enqueue_pending(struct session *session, struct notification *notification,
                        enum inflight_end end, bool is_new)
{
    struct inflight_entry *entry = find(session, notification);

    if (!subscription_has(&session->subscription, notification->frame.as.notification.topic))
        return true;
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
    if (end == INFLIGHT_OPEN && inflight_free_slots(&session->inflight) <= 0)
        return false;
    inflight_add(&session->inflight, notification, end);
    session->pending.filled += end == INFLIGHT_OPEN;
    queue(session, notification);
    return true;
}

static void
add_early(struct session_pending *pending, const struct notification *notification)
{
    if (pending->early == NULL)
        pending->early = memory_new(EARLY_MAX * sizeof(*pending->early));
    memcpy(pending->early[pending->early_count++], notification->frame.as.notification.id,
           sizeof(*pending->early));
}

bool
session_was_sent_early(const struct session *session, const struct notification *notification)
{
    const struct session_pending *pending = &session->pending;

    for (unsigned i = 0; i < pending->early_count; i++) {
        if (memcmp(pending->early[i], notification->frame.as.notification.id,
                   sizeof(*pending->early)) == 0)
            return true;
    }
    return false;
}

void
session_enqueue_held(struct session *session, struct notification *notification)
{
    if (session->state == SESSION_CLOSED || !session_is_recipient(session, &notification->frame) ||
        !subscription_has(&session->subscription, notification->frame.as.notification.topic))
        return;
    if (session->outbound.count >= OUTBOUND_MAX || session->pending.early_count == EARLY_MAX) {
        session->pending.deferral.by_stream = true;
        return;
    }
    if (session->is_deferred)
        add_early(&session->pending, notification);
    session_queue(session, notification);
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
        session_count_skipped(session, notification->text_len);
    if (session->state != SESSION_LIVE ||
        !cursor_is_before(&session->cursor, notification->shard, notification->id))
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

    if (session->state == SESSION_LIVE &&
        cursor_is_before(&session->cursor, first->shard, first->id)) {
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
session_miss_retry(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry = find(session, notification);

    if (entry != NULL)
        entry->is_missed = true;
}

/* A retry that cannot be queued now is in the pending list. */
void
session_offer_retry(struct session *session, struct notification *notification)
{
    const struct session_pending *pending = &session->pending;

    if (session->state < SESSION_PENDING)
        return; /* the pending list is read later */
    session_miss_retry(session, notification);
    if (session->state != SESSION_LIVE || session_is_full(session) ||
        ((pending->is_due || pending->is_rewound) && find(session, notification) == NULL) ||
        !session_enqueue_pending(session, notification, INFLIGHT_OPEN, false)) {
        session_rewind(session);
        return;
    }
    cursor_advance(&session->cursor, notification->shard, notification->id);
}

void
session_rewind(struct session *session)
{
    session->pending.is_rewound = true;
    if (session->state != SESSION_CLOSED)
        session_mark(session, READY_REFILL);
}

/* ---- in flight */

void
session_send_acked(struct session *session, const char *const *ids, size_t count)
{
    struct buffer frame;
    bool is_whole;

    if (session->state < SESSION_PENDING || session->state == SESSION_CLOSED || count == 0)
        return;
    buffer_init(&frame, SESSION_CONTROL_MAX);
    is_whole = buffer_addf(&frame, "{\"t\":\"acked\",\"ids\":[") == RC_OK;
    for (size_t i = 0; i < count && is_whole; i++)
        is_whole = buffer_addf(&frame, "%s\"%s\"", i > 0 ? "," : "", ids[i]) == RC_OK;
    if (is_whole && buffer_addf(&frame, "]}") == RC_OK)
        session_send_control(session, frame.bytes, frame.len);
    buffer_free(&frame);
}

void
session_inflight_written(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry = find(session, notification);
    char id[FRAME_UUID_TEXT + 1];

    if (entry == NULL)
        return;
    entry->is_written = true;
    if (entry->end == INFLIGHT_OPEN) {
        delivery_report_add(session, notification);
        return;
    }
    if (entry->end == INFLIGHT_ACKED) {
        frame_id_text(entry->id, id);
        session_send_acked(session, &(const char *){id}, 1);
    }
    inflight_remove(&session->inflight, entry);
}

void
session_inflight_drop(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry = find(session, notification);

    if (entry != NULL)
        inflight_remove(&session->inflight, entry);
}

int
session_inflight_end(struct session *session, const unsigned char id[16], enum inflight_end end)
{
    struct inflight_entry *entry = inflight_find(&session->inflight, id);
    int shard;

    if (entry == NULL)
        return -1;
    shard = entry->shard;
    if (entry->end != INFLIGHT_OPEN)
        return shard;
    if (!entry->is_written)
        inflight_end(&session->inflight, entry, end);
    else if (session->state == SESSION_PENDING && session->requests.is_awaited)
        inflight_end(&session->inflight, entry, INFLIGHT_ENDED); /* the page may contain it */
    else
        inflight_remove(&session->inflight, entry);
    return shard;
}

void
session_inflight_end_retries(struct session *session, const unsigned char id[16])
{
    const struct inflight_entry *entry = inflight_find(&session->inflight, id);

    if (entry != NULL && entry->is_written)
        (void)session_inflight_end(session, id, INFLIGHT_ENDED);
}

void
session_reconcile(struct session *session)
{
    const struct inflight *inflight = &session->inflight;

    /* Without an in-flight window no acknowledgement can have been missed. */
    if (inflight->room == 0 || session->state < SESSION_PENDING)
        return;
    for (int i = 0; i < inflight->count; i++) {
        const struct inflight_entry *entry = &inflight->entries[i];

        if (entry->is_written && entry->end == INFLIGHT_OPEN)
            delivery_report_renew(session, entry);
    }
    session_rewind(session);
}
