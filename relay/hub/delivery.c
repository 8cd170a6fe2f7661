/*
 * delivery.c: a notification in a session. It is offered: queued, deferred, dropped or skipped.
 * What is queued and needs an acknowledgement is in flight, until its end. Once it is written, a
 * delivery report starts its ack timeout; the reply of the store may be that the pair has ended.
 *
 * While the in-flight window is full, a session asks the store about what it has not sent:
 *
 * Recipient: must the user acknowledge the notification? It is for a group, so the pending list may
 * not have it. The notification is held until the reply. If not, it is sent; if so, it is deferred
 * and read from the list later.
 *
 * State: has a deferred notification of the stream ended, and how? One that has ended needs no
 * slot, so the next pass sends it (known_state in resume.c).
 *
 * pair_requests.c sends reports and queries; report.lua replies to both.
 */
#include "hub/hub_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"
#include "wire/frame.h"

/* ---- the in-flight window */

#define INFLIGHT_FIRST_ROOM 4

static struct inflight_entry *
inflight_find(const struct inflight *inflight, const unsigned char id[16])
{
    for (int i = 0; i < inflight->count; i++) {
        if (memcmp(inflight->entries[i].id, id, 16) == 0)
            return &inflight->entries[i];
    }
    return NULL;
}

static struct inflight_entry *
find_in_flight(const struct session *session, const struct notification *notification)
{
    return inflight_find(&session->inflight, notification->frame.as.notification.id);
}

static void
inflight_add(struct inflight *inflight, const struct notification *notification,
             enum inflight_state state)
{
    struct inflight_entry *entry;

    if (inflight->count == inflight->room) {
        inflight->room = inflight->room == 0 ? INFLIGHT_FIRST_ROOM : inflight->room * 2;
        inflight->entries =
            memory_grow(inflight->entries, (size_t)inflight->room * sizeof(*inflight->entries));
    }
    entry = &inflight->entries[inflight->count++];
    *entry = (struct inflight_entry){
        .shard = notification->shard,
        .attempts = notification->is_retry ? notification->frame.as.notification.attempts : 0,
        .state = (uint8_t)state,
    };
    memcpy(entry->id, notification->frame.as.notification.id, sizeof(entry->id));
    inflight->ended += state != INFLIGHT_OPEN;
}

static void
inflight_remove(struct inflight *inflight, struct inflight_entry *entry)
{
    inflight->ended -= entry->state != INFLIGHT_OPEN;
    *entry = inflight->entries[--inflight->count];
}

/* An OPEN entry has ended, and remains until it is removed. */
static void
inflight_end(struct inflight *inflight, struct inflight_entry *entry, enum inflight_state state)
{
    entry->state = (uint8_t)state;
    inflight->ended++;
}

void
inflight_sweep(struct inflight *inflight)
{
    for (int i = inflight->count - 1; i >= 0 && inflight->ended > 0; i--) {
        struct inflight_entry *entry = &inflight->entries[i];

        if (entry->is_written && entry->state != INFLIGHT_OPEN)
            inflight_remove(inflight, entry);
    }
}

/* ---- delivery reports */

static enum inflight_state
state_of(enum store_pair state)
{
    switch (state) {
    case STORE_PAIR_PENDING:
    case STORE_PAIR_LOST:
        return INFLIGHT_OPEN;
    case STORE_PAIR_ACKED:
        return INFLIGHT_ACKED;
    case STORE_PAIR_NONE:
    case STORE_PAIR_ENDED:
        return INFLIGHT_ENDED;
    }
    return INFLIGHT_OPEN;
}

/* The reply to a delivery report: the pair may have ended. */
static void
on_reported(struct hub *hub, struct pair_request *request, bool has_reply)
{
    const enum inflight_state state = state_of(request->state);

    if (has_reply && state != INFLIGHT_OPEN)
        user_sessions_pair_ended(hub_sessions_of_user(hub, request->stored.user),
                                 request->stored.id, state);
}

/* NULL: too many are queued. The notification stays pending, and is sent after a reconnect. */
static struct store_report *
add_report(struct session *session, unsigned shard, const unsigned char id[16])
{
    return pair_requests_add(session, shard, id, on_reported, NULL);
}

/* ---- replies to queries */

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

/* The user does not have to acknowledge it. */
static void
send_early(struct session *session, struct notification *notification)
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

/*
 * If the user does not have to acknowledge the notification, it is in no list.
 *
 * A failover loses the end of a stream: all later notifications that were read before are lost too.
 * WAL is confirmed late, so the feed stores a lost notification again, except one that was
 * published over HTTP. Until the reader reads the new history, the session must not receive later
 * ones before it.
 */
static void
note_recipient(struct hub *hub, const struct pair_request *request)
{
    struct session *session = request->query.session;
    struct notification *notification = request->query.notification;
    const unsigned shard = request->stored.shard;

    if (request->state == STORE_PAIR_LOST && notification->frame.commit_lsn != 0) {
        if (!store_is_read(hub->store, shard))
            cursor_advance(&session->cursor, shard, hub->newest[shard]);
    } else if (request->state == STORE_PAIR_NONE || request->state == STORE_PAIR_LOST) {
        send_early(session, notification);
    }
}

/* OPEN: the pair has not ended. */
static void
note_state(struct session *session, const unsigned char id[16], enum inflight_state state)
{
    struct session_pending *pending = &session->pending;
    struct ended_pair *ended;

    if (state == INFLIGHT_OPEN)
        pending->is_open = true;
    if (pending->is_open || pending->ended_count == pending->queried)
        return;
    ended = &pending->ended[pending->ended_count++];
    ended->state = (uint8_t)state;
    memcpy(ended->id, id, sizeof(ended->id));
}

/* ---- queries */

static void
on_query_reply(struct hub *hub, struct pair_request *request, bool has_reply)
{
    struct session *session = request->query.session;
    struct notification *notification = request->query.notification;

    if (has_reply && notification == NULL)
        note_state(session, request->stored.id, state_of(request->state));
    else if (has_reply)
        note_recipient(hub, request);
    session->requests.count--;
    session->pending.query_count--;
    if (notification != NULL) {
        session->pending.query_bytes -= (uint32_t)notification->text_len;
        notification_unref(notification);
    }
    if (session->state == SESSION_CLOSED)
        session_free_if_done(session);
    else if (!hub->closing)
        session_mark(session, READY_ADVANCE | READY_REFILL); /* it may wait for this reply */
}

/*
 * The session counts the query until the reply. With a notification, which is held until then, it
 * asks for the recipient, otherwise for the state. False: too many requests are queued.
 */
static bool
send_query(struct session *session, unsigned shard, struct entry_id entry,
           const unsigned char id[16], struct notification *notification)
{
    const struct pair_query query = {session, notification};
    struct store_report *report = pair_requests_add(session, shard, id, on_query_reply, &query);

    if (report == NULL)
        return false;
    report->entry = entry;
    report->is_query = true;
    session->requests.count++;
    session->pending.query_count++;
    if (notification != NULL) {
        (void)notification_ref(notification);
        session->pending.query_bytes += (uint32_t)notification->text_len;
    }
    return true;
}

bool
session_query_state(struct session *session, unsigned shard, struct entry_id entry,
                    const unsigned char id[16])
{
    return send_query(session, shard, entry, id, NULL);
}

/* ---- queueing */

/*
 * The notification remains pending. Each connection that does not receive it for its topics reports
 * that once, for its trace.
 */
static void
skip_topic(struct session *session, const struct notification *notification)
{
    struct store_report *report;

    if (!notification->needs_ack ||
        !topics_skip(session->topics, notification->shard, notification->id))
        return;
    report = add_report(session, notification->shard, notification->frame.as.notification.id);
    if (report != NULL)
        report->is_unsubscribed = true;
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
    if (!bytes_equal(frame->audience, user) &&
        !send_query(session, notification->shard, notification->id, frame->id, notification))
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
        if (find_in_flight(session, notification) != NULL)
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

/*
 * A retry that was not queued after the notification was written is sent again. The page may be
 * older than the retry: also if trim.lua had moved its entry, which then looks like a retry.
 */
static bool
repeats(struct inflight_entry *entry, const struct notification *notification)
{
    const bool is_repeated = entry->is_missed && entry->is_written && entry->state == INFLIGHT_OPEN;

    if (!notification->is_retry || notification->frame.as.notification.attempts < entry->attempts)
        return false;
    entry->is_missed = false;
    entry->is_written = entry->is_written && !is_repeated;
    return is_repeated;
}

bool
session_admit_pending(struct session *session, struct notification *notification,
                      enum inflight_state state, bool is_new)
{
    struct inflight_entry *entry = find_in_flight(session, notification);

    if (!topics_match(session->topics, notification->frame.as.notification.topic)) {
        if (state == INFLIGHT_OPEN)
            skip_topic(session, notification);
        return true;
    }
    if (entry != NULL) {
        if (repeats(entry, notification))
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
    struct inflight_entry *entry = find_in_flight(session, notification);

    if (entry == NULL)
        return;
    entry->is_missed = true;
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
         find_in_flight(session, notification) == NULL) ||
        !session_admit_pending(session, notification, INFLIGHT_OPEN, false)) {
        session_rewind(session);
        return;
    }
    cursor_advance(&session->cursor, notification->shard, notification->id);
}

/* ---- written, or removed from the queue */

void
session_inflight_written(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);
    struct store_report *report;
    char id[FRAME_UUID_TEXT + 1];

    if (entry == NULL)
        return;
    entry->is_written = true;
    if (entry->state == INFLIGHT_OPEN) {
        report = add_report(session, notification->shard, entry->id);
        if (report != NULL)
            report->attempts = entry->attempts;
        return;
    }
    if (entry->state == INFLIGHT_ACKED) {
        frame_id_text(entry->id, id);
        session_send_acked(session, &(const char *){id}, 1);
    }
    inflight_remove(&session->inflight, entry);
}

void
session_inflight_drop(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);

    if (entry == NULL)
        return;
    inflight_remove(&session->inflight, entry);
    session_mark(session, READY_REFILL);
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
        struct store_report *report;

        if (!entry->is_written || entry->state != INFLIGHT_OPEN)
            continue;
        report = add_report(session, entry->shard, entry->id);
        if (report != NULL)
            report->is_renewal = true;
    }
    session_rewind(session);
}

/* ---- the end of a notification in flight */

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

int
session_inflight_end(struct session *session, const unsigned char id[16], enum inflight_state state)
{
    struct inflight_entry *entry = inflight_find(&session->inflight, id);
    int shard;

    if (entry == NULL)
        return -1;
    shard = entry->shard;
    if (entry->state != INFLIGHT_OPEN)
        return shard;
    if (!entry->is_written)
        inflight_end(&session->inflight, entry, state);
    else if (session->state == SESSION_PENDING && session->requests.is_awaited)
        inflight_end(&session->inflight, entry, INFLIGHT_ENDED); /* the page may contain it */
    else
        inflight_remove(&session->inflight, entry);
    return shard;
}

void
session_inflight_end_written(struct session *session, const unsigned char id[16])
{
    const struct inflight_entry *entry = inflight_find(&session->inflight, id);

    if (entry != NULL && entry->is_written)
        (void)session_inflight_end(session, id, INFLIGHT_ENDED);
}

void
user_sessions_pair_ended(struct membership *members, const unsigned char id[16],
                         enum inflight_state state)
{
    struct membership *member;
    char text[FRAME_UUID_TEXT + 1];

    frame_id_text(id, text);
    DL_FOREACH (members, member) {
        const struct inflight_entry *entry = inflight_find(&member->session->inflight, id);
        const bool is_open = entry != NULL && entry->state == INFLIGHT_OPEN;
        const bool is_written = is_open && entry->is_written;

        if (!is_open)
            continue;
        (void)session_inflight_end(member->session, id, state);
        if (is_written && state == INFLIGHT_ACKED)
            session_send_acked(member->session, &(const char *){text}, 1);
        session_mark(member->session, READY_REFILL);
    }
}
