/*
 * acks.c: what the store learns: delivery reports, acknowledgements and negative acknowledgements,
 * in this order; and what its replies mean for the sessions of a user.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "wire/frame.h"

/* ---- effects on the sessions of a user */

/*
 * The user acknowledged a notification in the session `by` (NULL: elsewhere). Returns its shard, or
 * -1 if it was not in flight or the id is invalid.
 */
static int
user_sessions_end_inflight(struct membership *members, const char *text, const struct session *by)
{
    struct membership *member;
    unsigned char id[16];
    int shard = -1;

    if (!frame_id_parse(text, strlen(text), id))
        return -1;
    DL_FOREACH (members, member) {
        int known = session_inflight_end(member->session, id,
                                         member->session == by ? INFLIGHT_ENDED : INFLIGHT_ACKED);

        shard = known >= 0 ? known : shard;
    }
    return shard;
}

static void
user_sessions_refill(struct membership *members)
{
    struct membership *member;

    DL_FOREACH (members, member)
        session_mark(member->session, READY_REFILL);
}

/* ---- delivery reports */

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
        session_note_end(item->held_by, item->stored.id, end_of(item->state));
    else if (item->state == STORE_PAIR_LOST && item->notification->frame.commit_lsn != 0) {
        if (!store_is_read(hub->store, shard))
            cursor_advance(&item->held_by->cursor, shard, hub->newest[shard]);
    } else if (item->state == STORE_PAIR_NONE || item->state == STORE_PAIR_LOST) {
        session_enqueue_held(item->held_by, item->notification);
    }
}

/* The store states that the user does not have to acknowledge the notification, or not any more. */
static void
end_stored(struct membership *members, const unsigned char id[16], enum inflight_end end)
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
    end_stored(hub_sessions_of_user(hub, item->stored.user), item->stored.id,
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

/* True if reports must be sent or repeated. Acks wait for them. */
static bool
delivery_reports_wait(const struct hub *hub)
{
    return hub->reports.count > 0 || hub->reports.failed > 0;
}

static void
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

/* ---- acknowledgements */

#define ACKS_PER_CALL 2000
#define ACKS_MAX 100000
/* acks of notifications that are not in flight on this relay */
#define FOREIGN_ACKS_MAX (ACKS_MAX / 2)

static void
clear(struct acks *acks)
{
    for (size_t i = 0; i < acks->count; i++) {
        free((char *)acks->items[i].user);
        free((char *)acks->items[i].id);
    }
    acks->count = 0;
}

static void
push(struct acks *acks, struct store_ack ack)
{
    if (acks->count == acks->room) {
        acks->room = acks->room == 0 ? 64 : acks->room * 2;
        acks->items = memory_grow(acks->items, acks->room * sizeof(*acks->items));
    }
    acks->items[acks->count++] = ack;
}

/*
 * `shard` is the shard of the notification; -1: unknown. If the queue is full, the ack is dropped:
 * the notification stays pending, is retried, and is acknowledged again.
 */
static void
add_ack(struct hub *hub, const char *user, const char *id, int shard)
{
    if (hub->acks.queued.count + hub->acks.waiting.count >=
        (shard >= 0 ? ACKS_MAX : FOREIGN_ACKS_MAX)) {
        hub_log_rejected(&hub->acks_rejected, user, "ack queue is full: acks dropped");
        return;
    }
    stats_time(hub->stats, TIME_ACKED, clock_wall_us() - frame_uuid_ms(id) * 1000);
    push(&hub->acks.queued, (struct store_ack){memory_text(user, strlen(user)),
                                               memory_text(id, strlen(id)), (signed char)shard});
}

static void
queue_again(struct hub *hub, struct acks *acks)
{
    for (size_t i = 0; i < acks->count; i++)
        push(&hub->acks.queued, acks->items[i]);
    acks->count = 0;
}

/*
 * Sessions may have queued these notifications after another session acknowledged them, while the
 * acks were still queued: then the replies to their delivery reports were that they are pending.
 */
static void
end_acked(struct hub *hub, const struct acks *acks)
{
    struct membership *members = NULL;
    unsigned char id[16];

    for (size_t i = 0; i < acks->count; i++) {
        const struct store_ack *ack = &acks->items[i];

        if (i == 0 || strcmp(ack->user, acks->items[i - 1].user) != 0)
            members = hub_sessions_of_user(hub, ack->user);
        if (members != NULL && frame_id_parse(ack->id, strlen(ack->id), id))
            end_stored(members, id, INFLIGHT_ACKED);
    }
}

static void
on_acked(void *ctx, enum rc rc)
{
    struct hub *hub = ctx;

    if (hub->closing)
        return;
    if (rc == RC_OK) {
        end_acked(hub, &hub->acks.sent);
        clear(&hub->acks.sent);
        acks_flush(hub);
        hub_mark(hub, HUB_REFILL);
        return;
    }
    /* The acks may have been stored, but they are idempotent, so they are sent again. */
    queue_again(hub, &hub->acks.sent);
    hub_retry(hub);
}

void
acks_flush(struct hub *hub)
{
    struct acks *queued = &hub->acks.queued, *sent = &hub->acks.sent;
    size_t count = 0;

    delivery_reports_flush(hub);
    if (queued->count == 0 || sent->count > 0 || delivery_reports_wait(hub) ||
        !store_replies(hub->store))
        return;
    /* Acks of an unavailable shard leave the queue, so that they do not block others. */
    while (count < queued->count && sent->count < ACKS_PER_CALL) {
        const struct store_ack *ack = &queued->items[count++];

        push(store_acks_wait(hub->store, ack) ? &hub->acks.waiting : sent, *ack);
    }
    queued->count -= count;
    memmove(queued->items, queued->items + count, queued->count * sizeof(*queued->items));
    if (sent->count > 0 && store_ack(hub->store, sent->items, sent->count, on_acked, hub) != RC_OK)
        on_acked(hub, RC_AGAIN);
}

void
acks_resume(struct hub *hub)
{
    queue_again(hub, &hub->acks.waiting);
    acks_flush(hub);
}

void
acks_free(struct hub *hub)
{
    delivery_reports_apply(hub);
    for (size_t i = 0; i < hub->reports.count; i++)
        release(&hub->reports.items[i]);
    free(hub->reports.items);
    clear(&hub->acks.queued);
    clear(&hub->acks.sent);
    clear(&hub->acks.waiting);
    free(hub->acks.waiting.items);
    free(hub->acks.queued.items);
    free(hub->acks.sent.items);
}

/*
 * A session that has still to receive one of them gets `acked` again behind it. `except` may be
 * NULL.
 */
static void
send_acked(struct membership *members, const struct session *except, const char *const *ids,
           size_t count)
{
    struct membership *member;

    DL_FOREACH (members, member) {
        if (member->session != except)
            session_send_acked(member->session, ids, count);
    }
}

void
hub_end_acks(struct hub *hub, const char *user, const char *const *ids, size_t count,
             bool was_acked)
{
    struct membership *members = hub_sessions_of_user(hub, user), *member;
    unsigned char id[16];

    for (size_t i = 0; i < count; i++) {
        if (was_acked) {
            (void)user_sessions_end_inflight(members, ids[i], NULL);
        } else if (frame_id_parse(ids[i], strlen(ids[i]), id)) {
            DL_FOREACH (members, member)
                session_inflight_end_retries(member->session, id);
        }
    }
    if (was_acked)
        send_acked(members, NULL, ids, count);
    user_sessions_refill(members);
}

static int
compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the ids and removes duplicates. Returns the number of ret_ids. */
static size_t
sort_ids(const char *const *ids, size_t count, const char **ret_ids)
{
    bool is_sorted = true;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        ret_ids[i] = ids[i];
        is_sorted = is_sorted && (i == 0 || strcmp(ids[i - 1], ids[i]) < 0);
    }
    if (is_sorted) /* the typical case: acknowledged in commit order */
        return count;
    qsort(ret_ids, count, sizeof(*ret_ids), compare_ids);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(ret_ids[kept - 1], ret_ids[i]) != 0)
            ret_ids[kept++] = ret_ids[i];
    }
    return kept;
}

static void
apply_acks(struct hub *hub, const char *user, const struct session *session, const char *const *ids,
           size_t count)
{
    const char *sorted[SESSION_ACKS_MAX];
    struct membership *members = hub_sessions_of_user(hub, user);

    count = sort_ids(ids, count, sorted);
    for (size_t i = 0; i < count; i++)
        add_ack(hub, user, sorted[i], user_sessions_end_inflight(members, sorted[i], session));
    acks_flush(hub);
    send_acked(members, session, sorted, count);
    user_sessions_refill(members);
}

void
session_ack(struct session *session, const char *const *ids, size_t count)
{
    apply_acks(session->hub, session->client.user, session, ids, count);
}

void
hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count)
{
    apply_acks(hub, user, NULL, ids, count);
}

/* ---- negative acknowledgements */

#define NACKS_MAX 8192 /* maximum pending ids */

/* A call in flight. */
struct nack {
    struct hub *hub;
    size_t count;
};

static void
on_nacked(void *ctx, enum rc rc)
{
    struct nack *nack = ctx;
    struct hub *hub = nack->hub;

    hub->nack_count -= nack->count;
    if (rc != RC_OK && !hub->closing)
        log_info("hub", "could not store nacks: notifications are retried after the ack timeout",
                 LOG_UINT("count", nack->count));
    free(nack);
}

enum rc
hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count, int64_t delay_ms)
{
    struct nack *nack;
    enum rc rc;

    delivery_reports_flush(hub);
    if (hub->nack_count >= NACKS_MAX)
        return RC_AGAIN;
    nack = memory_new(sizeof(*nack));
    *nack = (struct nack){hub, count};
    rc = store_nack(hub->store, user, ids, count, delay_ms, on_nacked, nack);
    if (rc == RC_OK)
        hub->nack_count += count;
    else
        free(nack);
    return rc;
}

void
session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms)
{
    if (hub_nack(session->hub, session->client.user, ids, count, delay_ms) != RC_OK)
        hub_log_rejected(&session->hub->nacks_rejected, session->client.user,
                         "nacks dropped: store is unavailable, or too many are pending");
}
