/* delivery_reports.c: sends delivery reports to the store and applies its replies. */
#include "hub/delivery_reports.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/memory.h"
#include "hub/inflight_release.h"
#include "hub/offer.h"
#include "hub/report_queue.h"
#include "hub/hub_state.h"
#include "hub/members.h"
#include "hub/ready_list.h"
#include "hub/state.h"

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

static void
release(struct delivery_report *item)
{
    struct session *session = item->deferred;

    free(item->user);
    if (session == NULL)
        return;
    session->requests.count--;
    session->pending.held_count--;
    session->pending.held_bytes -= item->notification->text_len;
    notification_unref(item->notification);
    if (session->state == SESSION_CLOSED)
        session_free_if_done(session);
    else if (!session->hub->closing)
        session_mark(session, READY_ADVANCE | READY_REFILL); /* it may wait for this reply */
}

/*
 * WAL is confirmed late, so the feed stores a lost notification again, except one that was
 * published over HTTP.
 */
static bool
is_stored_again(const struct delivery_report *item)
{
    return item->state == STORE_PAIR_LOST && item->notification->frame.commit_lsn != 0;
}

/*
 * Applies the reply about a deferred notification. If the user does not have to acknowledge it, it
 * is in no list. A failover loses the end of a stream: all later notifications that were read
 * before are lost too. Until the reader reads the new history, the session must not receive them
 * before this one.
 */
static void
apply_to_held(struct hub *hub, const struct delivery_report *item)
{
    const unsigned shard = item->notification->shard;

    if (is_stored_again(item)) {
        if (!store_is_read(hub->store, shard))
            cursor_advance(&item->deferred->cursor, shard, hub->newest[shard]);
    } else if (item->state == STORE_PAIR_NONE || item->state == STORE_PAIR_LOST) {
        session_enqueue_held(item->deferred, item->notification);
    }
}

/* The notification was sent, and the user does not have to acknowledge it, or not any more. */
static void
apply_to_sent(struct hub *hub, const struct delivery_report *item)
{
    struct membership *members = hub_user_members(hub, item->user), *member;
    char text[FRAME_UUID_TEXT + 1];

    frame_id_text(item->id, text);
    DL_FOREACH (members, member) {
        struct inflight_entry *entry = inflight_find(&member->session->inflight, item->id);
        const bool is_acked = item->state == STORE_PAIR_ACKED && entry != NULL &&
                              entry->is_written && entry->end == INFLIGHT_OPEN;

        (void)session_inflight_end(member->session, item->id,
                                   item->state == STORE_PAIR_ACKED ? INFLIGHT_ACKED
                                                                   : INFLIGHT_ENDED);
        if (is_acked)
            session_send_acked(member->session, &(const char *){text}, 1);
    }
    members_refill(members);
}

static void
end_call(struct hub *hub, struct report_call *call)
{
    DL_DELETE(hub->reports.calls, call);
    hub->reports.call_count--;
    for (size_t i = 0; i < call->count && !hub->closing; i++)
        if (call->items[i].deferred != NULL)
            apply_to_held(hub, &call->items[i]);
        else if (call->items[i].state != STORE_PAIR_PENDING)
            apply_to_sent(hub, &call->items[i]);
    for (size_t i = 0; i < call->count; i++)
        release(&call->items[i]);
    free(call);
}

void
delivery_reports_apply(struct hub *hub)
{
    struct report_call *call;

    while ((call = hub->reports.calls) != NULL && call->state != REPORT_SENT &&
           (call->state == REPORT_STORED || hub->closing))
        end_call(hub, call);
}

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

    for (size_t i = 0; i < call->count; i++) {
        const struct delivery_report *item = &call->items[i];

        reports[i] = (struct store_report){
            .user = item->user,
            .id = item->id,
            .entry = item->deferred != NULL ? item->notification->id : (struct entry_id){0, 0},
            .shard = item->shard,
            .backoff = item->backoff,
            .ack_timeout_ms = item->ack_timeout_ms,
            .is_retried = item->retry_enabled,
            .is_open_ended = item->is_open_ended,
            .is_deferred = item->deferred != NULL,
            .is_renewal = item->is_renewal,
        };
    }
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

/* Repeats failed calls: reports are idempotent. */
static enum rc
send_failed_again(struct hub *hub)
{
    struct report_call *call;

    DL_FOREACH (hub->reports.calls, call) {
        if (call->state != REPORT_FAILED)
            continue;
        if (send_call(hub, call) != RC_OK)
            return RC_AGAIN;
        hub->reports.failed--;
    }
    return RC_OK;
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
    if (!delivery_reports_wait(hub) || !store_is_up(hub->store) ||
        (hub->reports.failed > 0 && send_failed_again(hub) != RC_OK))
        return;
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
