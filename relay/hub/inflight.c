/*
 * inflight.c: a notification in flight, from the in-flight window to its end; and its delivery
 * report, from the socket to the reply of the store, which may be that it has ended.
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

struct inflight_entry *
inflight_find(const struct inflight *inflight, const unsigned char id[16])
{
    for (int i = 0; i < inflight->count; i++) {
        if (memcmp(inflight->entries[i].id, id, 16) == 0)
            return &inflight->entries[i];
    }
    return NULL;
}

void
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
    *entry = (struct inflight_entry){
        .shard = notification->shard,
        .attempts = notification->is_retry ? notification->frame.as.notification.attempts : 0,
        .end = (uint8_t)end,
    };
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

/* ---- the queue of delivery reports */

#define REPORTS_MAX 262144
#define CALLS_MAX 64 /* maximum calls in flight */

enum report_state { REPORT_SENT, REPORT_STORED, REPORT_FAILED };

/*
 * Several calls may be in flight, each to several shards. Their replies are applied in the order of
 * the calls, so that held notifications are sent in their order.
 */
struct report_call {
    struct report_call *prev, *next;
    struct hub *hub;
    enum report_state state;
    size_t count;
    struct delivery_report items[];
};

/*
 * Adds a report to the queue; valid until the next one. NULL: too many are queued. The notification
 * remains pending, and is sent when the user reconnects.
 */
static struct delivery_report *
add_report(struct session *session, unsigned shard, const unsigned char id[16])
{
    struct hub *hub = session->hub;
    struct delivery_reports *reports = &hub->reports;
    struct delivery_report *report;

    if (reports->count >= REPORTS_MAX) {
        hub_log_rejected(&hub->reports_rejected, session->client.user,
                         "delivery report queue is full: reports dropped");
        return NULL;
    }
    if (reports->count == reports->room) {
        reports->room = reports->room == 0 ? 64 : reports->room * 2;
        reports->items = memory_grow(reports->items, reports->room * sizeof(*reports->items));
    }
    report = &reports->items[reports->count++];
    *report = (struct delivery_report){
        .stored = {
            .user = memory_text(session->client.user, strlen(session->client.user)),
            .shard = (unsigned char)shard,
        }};
    text_join(report->stored.conn, sizeof(report->stored.conn), session->client.conn, "", "");
    memcpy(report->stored.id, id, sizeof(report->stored.id));
    if (reports->call_count == 0 || reports->count >= REPORTS_PER_CALL)
        hub_mark(hub, HUB_FLUSH);
    return report;
}

/* The session waits for the reply. */
static bool
add_question(struct session *session, unsigned shard, struct entry_id entry,
             const unsigned char id[16], struct notification *held)
{
    struct delivery_report *report = add_report(session, shard, id);

    if (report == NULL)
        return false;
    report->stored.entry = entry;
    report->stored.is_held = true;
    report->held_by = session;
    session->requests.count++;
    session->pending.held_count++;
    if (held != NULL) {
        report->notification = notification_ref(held);
        session->pending.held_bytes += (uint32_t)held->text_len;
    }
    return true;
}

bool
session_query_end(struct session *session, unsigned shard, struct entry_id entry,
                  const unsigned char id[16])
{
    return add_question(session, shard, entry, id, NULL);
}

bool
session_hold(struct session *session, struct notification *notification)
{
    return add_question(session, notification->shard, notification->id,
                        notification->frame.as.notification.id, notification);
}

void
session_report_unsubscribed(struct session *session, const struct notification *notification)
{
    struct delivery_report *report =
        add_report(session, notification->shard, notification->frame.as.notification.id);

    if (report != NULL)
        report->stored.is_unsubscribed = true;
}

void
session_inflight_written(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);
    struct delivery_report *report;
    char id[FRAME_UUID_TEXT + 1];

    if (entry == NULL)
        return;
    entry->is_written = true;
    if (entry->end == INFLIGHT_OPEN) {
        report = add_report(session, notification->shard, entry->id);
        if (report != NULL)
            report->stored.attempts = entry->attempts;
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
        struct delivery_report *report;

        if (!entry->is_written || entry->end != INFLIGHT_OPEN)
            continue;
        report = add_report(session, entry->shard, entry->id);
        if (report != NULL)
            report->stored.is_renewal = true;
    }
    session_rewind(session);
}

/* ---- what the store replies */

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

/* The user does not have to acknowledge a notification that was held. */
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

/* The reply to session_query_end. OPEN: the pair has not ended. */
static void
note_end(struct session *session, const unsigned char id[16], enum inflight_end end)
{
    struct session_pending *pending = &session->pending;
    struct ended_pair *ended;

    if (end == INFLIGHT_OPEN)
        pending->is_open = true;
    if (pending->is_open || pending->ended_count == pending->queried)
        return;
    ended = &pending->ended[pending->ended_count++];
    ended->end = (uint8_t)end;
    memcpy(ended->id, id, sizeof(ended->id));
}

static void
release(struct delivery_report *item)
{
    struct session *session = item->held_by;

    free(item->stored.user);
    if (session == NULL)
        return;
    session->requests.count--;
    session->pending.held_count--;
    if (item->notification != NULL) {
        session->pending.held_bytes -= (uint32_t)item->notification->text_len;
        notification_unref(item->notification);
    }
    if (session->state == SESSION_CLOSED)
        session_free_if_done(session);
    else if (!session->hub->closing)
        session_mark(session, READY_ADVANCE | READY_REFILL); /* it may wait for this reply */
}

static enum inflight_end
end_of(enum store_pair state)
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

/*
 * Applies the reply about a deferred notification. If the user does not have to acknowledge it, it
 * is in no list.
 *
 * A failover loses the end of a stream: all later notifications that were read before are lost too.
 * WAL is confirmed late, so the feed stores a lost notification again, except one that was
 * published over HTTP. Until the reader reads the new history, the session must not receive later
 * ones before it.
 */
static void
apply_to_held(struct hub *hub, const struct delivery_report *item)
{
    const unsigned shard = item->stored.shard;

    if (item->notification == NULL)
        note_end(item->held_by, item->stored.id, end_of(item->state));
    else if (item->state == STORE_PAIR_LOST && item->notification->frame.commit_lsn != 0) {
        if (!store_is_read(hub->store, shard))
            cursor_advance(&item->held_by->cursor, shard, hub->newest[shard]);
    } else if (item->state == STORE_PAIR_NONE || item->state == STORE_PAIR_LOST) {
        send_early(item->held_by, item->notification);
    }
}

void
user_sessions_pair_ended(struct membership *members, const unsigned char id[16],
                         enum inflight_end end)
{
    struct membership *member;
    char text[FRAME_UUID_TEXT + 1];

    frame_id_text(id, text);
    DL_FOREACH (members, member) {
        const struct inflight_entry *entry = inflight_find(&member->session->inflight, id);
        const bool is_open = entry != NULL && entry->end == INFLIGHT_OPEN;
        const bool is_written = is_open && entry->is_written;

        if (!is_open)
            continue;
        (void)session_inflight_end(member->session, id, end);
        if (is_written && end == INFLIGHT_ACKED)
            session_send_acked(member->session, &(const char *){text}, 1);
        session_mark(member->session, READY_REFILL);
    }
}

static void
apply_to_sent(struct hub *hub, const struct delivery_report *item)
{
    user_sessions_pair_ended(hub_sessions_of_user(hub, item->stored.user), item->stored.id,
                             item->state == STORE_PAIR_ACKED ? INFLIGHT_ACKED : INFLIGHT_ENDED);
}

void
delivery_reports_apply(struct hub *hub)
{
    struct report_call *call;

    while ((call = hub->reports.calls) != NULL && call->state != REPORT_SENT &&
           (call->state == REPORT_STORED || hub->closing)) {
        DL_DELETE(hub->reports.calls, call);
        hub->reports.call_count--;
        for (size_t i = 0; i < call->count && !hub->closing; i++) {
            if (call->items[i].held_by != NULL)
                apply_to_held(hub, &call->items[i]);
            else if (call->items[i].state != STORE_PAIR_PENDING)
                apply_to_sent(hub, &call->items[i]);
        }
        for (size_t i = 0; i < call->count; i++)
            release(&call->items[i]);
        free(call);
    }
}

/* ---- calls of the store */

static void
on_reported(void *ctx, enum rc rc, const enum store_pair *states, size_t count)
{
    struct report_call *call = ctx;
    struct hub *hub = call->hub;

    for (size_t i = 0; rc == RC_OK && i < count; i++)
        call->items[i].state = states[i];
    call->state = rc == RC_OK ? REPORT_STORED : REPORT_FAILED;
    hub->reports.failed += rc != RC_OK;
    delivery_reports_apply(hub);
    if (hub->closing)
        return;
    if (rc != RC_OK) {
        hub_retry(hub);
        return;
    }
    hub_mark(hub, HUB_FLUSH);
}

static enum rc
send_call(struct hub *hub, struct report_call *call)
{
    struct store_report reports[REPORTS_PER_CALL];
    enum rc rc;

    for (size_t i = 0; i < call->count; i++)
        reports[i] = call->items[i].stored;
    rc = store_report(hub->store, reports, call->count, on_reported, call);
    if (rc == RC_CLOSED) {
        call->state = REPORT_STORED;
        hub_mark(hub, HUB_FLUSH);
        return RC_OK;
    }
    if (rc == RC_OK)
        call->state = REPORT_SENT;
    return rc;
}

static enum rc
send_some(struct hub *hub)
{
    size_t count = hub->reports.count < REPORTS_PER_CALL ? hub->reports.count : REPORTS_PER_CALL;
    struct report_call *call = memory_new(sizeof(*call) + count * sizeof(*call->items));

    call->hub = hub;
    call->count = count;
    memcpy(call->items, hub->reports.items, count * sizeof(*call->items));
    if (send_call(hub, call) != RC_OK) {
        free(call);
        return RC_AGAIN;
    }
    DL_APPEND(hub->reports.calls, call);
    hub->reports.call_count++;
    hub->reports.count -= count;
    memmove(hub->reports.items, hub->reports.items + count,
            hub->reports.count * sizeof(*hub->reports.items));
    return RC_OK;
}

bool
delivery_reports_wait(const struct hub *hub)
{
    return hub->reports.count > 0 || hub->reports.failed > 0;
}

void
delivery_reports_flush(struct hub *hub)
{
    struct report_call *call;

    if (!delivery_reports_wait(hub) || !store_replies(hub->store))
        return;
    /* Repeats failed calls: reports are idempotent. */
    for (call = hub->reports.calls; call != NULL && hub->reports.failed > 0; call = call->next) {
        if (call->state != REPORT_FAILED)
            continue;
        if (send_call(hub, call) != RC_OK)
            return;
        hub->reports.failed--;
    }
    while (hub->reports.count > 0 && hub->reports.call_count < CALLS_MAX) {
        if (send_some(hub) != RC_OK)
            return;
    }
}

void
delivery_reports_free(struct hub *hub)
{
    delivery_reports_apply(hub);
    for (size_t i = 0; i < hub->reports.count; i++)
        release(&hub->reports.items[i]);
    free(hub->reports.items);
}
