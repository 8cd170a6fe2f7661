/*
 * delivery.c: the outcomes of a notification in a session: it is queued, deferred, dropped or
 * skipped, and it is in flight until it is acknowledged.
 */
#include "hub/hub_private.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* ---- the in-flight window */

#define INFLIGHT_FIRST_ROOM 4

struct inflight_entry *
inflight_find(const struct inflight *inflight, const unsigned char id[16])
{
    for (int i = 0; i < inflight->count; i++) {
        if (memcmp(inflight->entries[i].id, id, 16) == 0)
            return &inflight->entries[i];
    }
    return NULL;
}

/* The window must not contain it, and must have a free slot unless it has ended. */
static void
inflight_add(struct inflight *inflight, const struct notification *notification,
             enum inflight_end end)
{
    struct inflight_entry *entry;

    if (inflight->count == inflight->room) {
        inflight->room = inflight->room == 0 ? INFLIGHT_FIRST_ROOM : inflight->room * 2;
        inflight->entries =
            memory_grow(inflight->entries, (size_t)inflight->room * sizeof(*inflight->entries));
    }
    entry = &inflight->entries[inflight->count++];
    *entry = (struct inflight_entry){.shard = notification->shard, .end = (uint8_t)end};
    memcpy(entry->id, notification->frame.as.notification.id, sizeof(entry->id));
    inflight->ended += end != INFLIGHT_OPEN;
}

static void
inflight_remove(struct inflight *inflight, struct inflight_entry *entry)
{
    inflight->ended -= entry->end != INFLIGHT_OPEN;
    *entry = inflight->entries[--inflight->count];
}

/* An OPEN entry has ended, and remains until it is removed. */
static void
inflight_end(struct inflight *inflight, struct inflight_entry *entry, enum inflight_end end)
{
    entry->end = (uint8_t)end;
    inflight->ended++;
}

void
inflight_sweep(struct inflight *inflight)
{
    for (int i = inflight->count - 1; i >= 0 && inflight->ended > 0; i--) {
        struct inflight_entry *entry = &inflight->entries[i];

        if (entry->is_written && entry->end != INFLIGHT_OPEN)
            inflight_remove(inflight, entry);
    }
}

static struct inflight_entry *
find(const struct session *session, const struct notification *notification)
{
    return inflight_find(&session->inflight, notification->frame.as.notification.id);
}

/* ---- delivery reports */

#define REPORTS_MAX 262144

/*
 * Reports that a notification was written to the socket. is_renewal: repeats a report that the
 * store may have lost. `held`, which may be NULL: the notification is held until the store states
 * whether the user must acknowledge it. False if too many reports are queued.
 */
static bool
add_report(struct session *session, unsigned char shard, const unsigned char id[16],
           bool is_renewal, struct notification *held)
{
    struct hub *hub = session->hub;
    struct delivery_reports *reports = &hub->reports;
    struct delivery_report *report;

    if (reports->count >= REPORTS_MAX) {
        /* The notification remains pending, and is sent when the user reconnects. */
        hub_log_rejected(&hub->reports_rejected, session->client.user,
                         "delivery report queue is full: reports dropped");
        return false;
    }
    if (reports->count == reports->room) {
        reports->room = reports->room == 0 ? 64 : reports->room * 2;
        reports->items = memory_grow(reports->items, reports->room * sizeof(*reports->items));
    }
    report = &reports->items[reports->count++];
    *report = (struct delivery_report){
        .stored = {
            .user = memory_text(session->client.user, strlen(session->client.user)),
            .shard = shard,
            .is_renewal = is_renewal,
        }};
    snprintf(report->stored.conn, sizeof(report->stored.conn), "%s", session->client.conn);
    memcpy(report->stored.id, id, sizeof(report->stored.id));
    if (held != NULL) {
        report->stored.entry = held->id;
        report->stored.is_held = true;
        session->requests.count++;
        session->pending.held_count++;
        session->pending.held_bytes += (uint32_t)held->text_len;
        report->held_by = session;
        report->notification = notification_ref(held);
    }
    if (reports->call_count == 0 || reports->count >= REPORTS_PER_CALL)
        hub_mark(hub, HUB_FLUSH);
    return true;
}

bool
session_query_end(struct session *session, unsigned shard, struct entry_id entry,
                  const unsigned char id[16])
{
    struct delivery_report *report;

    if (!add_report(session, (unsigned char)shard, id, false, NULL))
        return false;
    report = &session->hub->reports.items[session->hub->reports.count - 1];
    report->stored.entry = entry;
    report->stored.is_held = true;
    report->held_by = session;
    session->requests.count++;
    session->pending.held_count++;
    return true;
}

/*
 * The notification remains pending. Each connection that does not receive it for its topics reports
 * that once, for its trace.
 */
static void
skip_topic(struct session *session, const struct notification *notification)
{
    struct delivery_reports *reports = &session->hub->reports;

    if (notification->needs_ack &&
        topics_skip(session->topics, notification->shard, notification->id) &&
        add_report(session, notification->shard, notification->frame.as.notification.id, false,
                   NULL))
        reports->items[reports->count - 1].stored.is_unsubscribed = true;
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
    if (!bytes_equal(frame->audience, user) &&
        !add_report(session, notification->shard, frame->id, false, notification))
        pending->deferral.by_stream = true;
}

void
session_enqueue(struct session *session, struct notification *notification)
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

    if (!topics_match(session->topics, notification->frame.as.notification.topic)) {
        if (end == INFLIGHT_OPEN)
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
    if (end == INFLIGHT_OPEN && inflight_free_slots(&session->inflight) <= 0)
        return false;
    inflight_add(&session->inflight, notification, end);
    session->pending.filled += end == INFLIGHT_OPEN;
    notification = ends_note_listed(session, notification);
    queue(session, notification);
    notification_unref(notification);
    return true;
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
    struct session_pending *pending = &session->pending;

    if (session->state == SESSION_CLOSED || !session_is_recipient(session, &notification->frame) ||
        !topics_match(session->topics, notification->frame.as.notification.topic))
        return;
    if (session->outbound.count >= OUTBOUND_MAX || pending->early_count == EARLY_MAX) {
        pending->deferral.by_stream = true;
        return;
    }
    if (session->has_deferral) {
        if (pending->early == NULL)
            pending->early = memory_new(EARLY_MAX * sizeof(*pending->early));
        memcpy(pending->early[pending->early_count++], notification->frame.as.notification.id,
               sizeof(*pending->early));
    }
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
        session->stall.skipped_bytes += notification->text_len;
    if (session->state != SESSION_LIVE ||
        !cursor_is_before(&session->cursor, notification->shard, notification->id))
        return;
    if (session_is_full(session)) {
        session->stall.skipped_bytes += notification->text_len;
        session_pause(session);
        return;
    }
    session_enqueue(session, notification);
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
    session_mark_retry(session, notification);
    if (session->state != SESSION_LIVE || session_is_full(session) ||
        ((pending->pass == PASS_DUE || pending->is_rewound) &&
         find(session, notification) == NULL) ||
        !session_enqueue_pending(session, notification, INFLIGHT_OPEN, false)) {
        session_rewind(session);
        return;
    }
    cursor_advance(&session->cursor, notification->shard, notification->id);
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
        session_send_control(session, SESSION_LINE_ACKED, frame.bytes, frame.len, NULL);
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
        (void)add_report(session, notification->shard, entry->id, false, NULL);
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

    if (entry == NULL)
        return;
    inflight_remove(&session->inflight, entry);
    session_mark(session, READY_REFILL);
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
            (void)add_report(session, entry->shard, entry->id, true, NULL);
    }
    session_rewind(session);
}
