/*
 * inflight.c: a notification in flight, from the in-flight window to its end; and its delivery
 * report, from the socket to the reply of the store, which may be that the pair has ended.
 * pair_requests.c sends the reports.
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

/* ---- delivery reports */

/* The reply to a delivery report: the pair may have ended. */
static void
on_reported(struct hub *hub, struct pair_request *request, bool has_reply)
{
    if (has_reply && request->state != STORE_PAIR_PENDING)
        user_sessions_pair_ended(
            hub_sessions_of_user(hub, request->stored.user), request->stored.id,
            request->state == STORE_PAIR_ACKED ? INFLIGHT_ACKED : INFLIGHT_ENDED);
}

/* NULL: too many are queued. The notification stays pending, and is sent after a reconnect. */
static struct store_report *
add_report(struct session *session, unsigned shard, const unsigned char id[16])
{
    return pair_requests_add(session, shard, id, on_reported, NULL);
}

void
session_report_unsubscribed(struct session *session, const struct notification *notification)
{
    struct store_report *report =
        add_report(session, notification->shard, notification->frame.as.notification.id);

    if (report != NULL)
        report->is_unsubscribed = true;
}

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
