/* delivery_reports.c: sends delivery reports to the store and applies its replies. */
#include "hub/acks/delivery_reports.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/memory.h"
#include "hub/acks/inflight_release.h"
#include "hub/delivery/offer.h"
#include "hub/delivery/report_queue.h"
#include "hub/session/backlog.h"
#include "hub/session/hub_state.h"
#include "hub/session/members.h"
#include "hub/session/ready_list.h"
#include "hub/session/state.h"

#define CALLS_MAX 64 /* maximum calls in flight */

enum report_state { REPORT_SENT, REPORT_STORED, REPORT_FAILED };

/*
 * Several calls may be in flight, each to several shards. Their replies are applied in the order of
 * the calls, so that notifications are released in the order in which they were held back.
 */
struct report_call {
    struct report_call *prev, *next;
    struct hub *hub;
    enum report_state state;
    size_t count;
    struct delivery_report items[];
};

static void
end_deferral(const struct delivery_report *item)
{
    struct session *session = item->deferred;

    if (session == NULL)
        return;
    session->inbox.held_count--;
    session->inbox.held_bytes -= item->notification->text_len;
}

static void
release(struct delivery_report *item)
{
    struct session *session = item->deferred;

    notification_unref(item->notification);
    free(item->user);
    if (session == NULL)
        return;
    session->requests.count--;
    if (session->state == SESSION_CLOSED)
        session_free_if_done(session);
    else if (!session->hub->closing)
        session_mark(session, READY_ADVANCE); /* the session may wait for this reply */
}

/*
 * Called if no ack is pending: another session acknowledged the notification, or the user became a
 * member later. If the notification was held back, it is sent; if it was sent, it leaves the
 * in-flight windows.
 */
static void
release_held(struct hub *hub, const struct delivery_report *item)
{
    struct membership *members;
    char id[FRAME_UUID_TEXT + 1];

    if (item->deferred != NULL) {
        session_enqueue_held(item->deferred, item->notification);
        return;
    }
    frame_id_text(item->id, id);
    members = hub_user_members(hub, item->user);
    if (members_remove_inflight(members, id) >= 0)
        members_refill(members);
}

/*
 * WAL is confirmed late, so the feed stores a lost notification again, except one that was
 * published over HTTP. A lost redrive is not repeated: its notification is in the error log again.
 */
static bool
is_stored_again(const struct delivery_report *item)
{
    return item->deferred != NULL && item->state == STORE_LOST &&
           item->notification->frame.commit_lsn != 0 && !item->notification->is_retry;
}

/*
 * A failover loses the end of a stream: all later notifications that were read before are lost too.
 * The session must not receive them before the one that is dropped here. Once the reader reads the
 * new history, the hub has dropped them (on_history).
 */
static void
skip_lost(struct hub *hub, const struct delivery_report *item)
{
    const unsigned shard = item->notification->shard;

    backlog_forget(item->deferred, item->notification);
    if (!store_is_read(hub->store, shard))
        cursor_advance(&item->deferred->cursor, shard, hub->newest[shard]);
}

/*
 * A held back notification whose ack is not pending must not overtake older notifications that wait
 * for room: it is dropped, and a gap follows them.
 */
static void
apply_reply(struct hub *hub, const struct delivery_report *item)
{
    const bool is_not_pending = item->state != STORE_PENDING;

    end_deferral(item);
    if (is_stored_again(item))
        skip_lost(hub, item);
    else if (item->deferred != NULL
                 ? backlog_decide(item->deferred, item->notification, is_not_pending)
                 : is_not_pending)
        release_held(hub, item);
}

static void
end_call(struct hub *hub, struct report_call *call)
{
    DL_DELETE(hub->reports.calls, call);
    hub->reports.call_count--;
    for (size_t i = 0; i < call->count && !hub->closing; i++)
        apply_reply(hub, &call->items[i]);
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
on_reported(void *ctx, enum rc rc, const enum store_pending *states, size_t count)
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
    hub_mark(hub, HUB_FLUSH | HUB_REFILL);
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
        hub_mark(hub, HUB_FLUSH | HUB_REFILL);
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
