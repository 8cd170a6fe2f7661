/*
 * ends.c: tells a session that it has received all notifications of a transaction.
 *
 * A transaction has ended for a session when a later one follows it in the streams of the user, or
 * when both streams cover the WAL behind its commit, and when nothing of it is held back by the
 * in-flight window.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"

#define LATE_MAX 1024
#define LATE_FIRST_ROOM 4

static const struct commit NONE = {0, 0};

/* A transaction that ended in the streams while notifications of it were held back. */
struct late_end {
    struct commit transaction;
    struct cursor rest; /* the last of these notifications, in each stream */
};

/*
 * The streams are in commit order, so at most one transaction of them is open. The pending list has
 * notifications of earlier transactions, in the same order.
 */
struct session_ends {
    struct session *session;
    struct session_ends *prev; /* links of hub->ends.waiting */
    struct session_ends *next;
    bool is_waiting;         /* in hub->ends.waiting: a transaction has not ended */
    bool is_full;            /* ends wait until the outbound queue is empty */
    struct commit of_stream; /* the open transaction of the streams ... */
    struct cursor rest;      /* ... and its last deferred notifications; zero: none */
    struct commit of_list;   /* the last one of the pending list, if it is not of_stream or late */
    struct late_end *late;   /* in commit order */
    unsigned late_count;
    unsigned late_room;
};

/* ---- the lines */

struct ends_mark
ends_mark_of(const struct session *session)
{
    return (struct ends_mark){session->ends->of_list.xid, session->ends->of_stream.xid == 0};
}

static void
queue_end(struct session *session, struct commit *transaction)
{
    const uint64_t xid = transaction->xid;

    *transaction = NONE;
    session_queue_end(session, xid, shed_cursor(session, session_reached(session)),
                      ends_mark_of(session));
}

struct fanout_batch *
ends_share(struct hub *hub, unsigned own, uint64_t xid, struct cursor cursor)
{
    struct shared_end *shared = &hub->ends.shared[own];
    struct entry_id heads[STORE_SHARDS_MAX];
    struct notification *line;

    if (shared->batch != NULL && shared->xid == xid && cursor_equal(shared->cursor, cursor))
        return shared->batch;
    fanout_batch_unref(shared->batch);
    cursor_to_heads(cursor, own, heads, hub->shards);
    line = notification_new_end(xid, hub->epoch, heads, hub->shards, NULL,
                                (struct ends_mark){.is_ended = true});
    *shared = (struct shared_end){fanout_batch_new(&line, 1), xid, cursor};
    notification_unref(line);
    return shared->batch;
}

/* ---- transactions of the streams */

static void
wait(struct session_ends *ends)
{
    struct hub *hub = ends->session->hub;

    if (!ends->is_waiting)
        DL_APPEND(hub->ends.waiting, ends);
    ends->is_waiting = true;
}

/* True if nothing up to `rest` is held back by the in-flight window. */
static bool
is_sent(const struct session *session, struct cursor rest)
{
    const struct session_pending *pending = &session->pending;
    const bool is_read = !pending->is_due && session->state != SESSION_PENDING;

    return (!session->has_deferral || cursor_reaches(pending->deferral.from, rest)) &&
           (is_read || cursor_reaches(pending->at, rest));
}

static void
drop_first_late(struct session_ends *ends)
{
    ends->late_count--;
    memmove(ends->late, ends->late + 1, ends->late_count * sizeof(*ends->late));
}

/*
 * The client's lists cannot wait for the ends of any number of transactions. They load their rows
 * instead.
 */
static void
limit_late(struct session_ends *ends)
{
    if (ends->late_count < LATE_MAX)
        return;
    lists_reload(ends->session, NULL, false);
    queue_end(ends->session, &ends->late[0].transaction);
    drop_first_late(ends);
}

/* The streams have no more of the transaction. */
static void
end_in_stream(struct session_ends *ends)
{
    if (ends->of_stream.xid == 0)
        return;
    if (is_sent(ends->session, ends->rest)) {
        queue_end(ends->session, &ends->of_stream);
        return;
    }
    limit_late(ends);
    if (ends->late_count == ends->late_room) {
        ends->late_room = ends->late_room == 0 ? LATE_FIRST_ROOM : ends->late_room * 2;
        ends->late = memory_grow(ends->late, ends->late_room * sizeof(*ends->late));
    }
    ends->late[ends->late_count++] = (struct late_end){ends->of_stream, ends->rest};
    ends->of_stream = NONE;
}

/* `lsn` is not lower than that of the open transaction. */
static void
open_in_stream(struct session_ends *ends, struct commit transaction)
{
    if (ends->of_stream.xid == transaction.xid)
        return;
    end_in_stream(ends);
    if (ends->of_list.xid == transaction.xid)
        ends->of_list = NONE;
    ends->of_stream = transaction;
    ends->rest = (struct cursor){.own = {0, 0}};
    wait(ends);
}

static struct commit
transaction_of(const struct frame *frame)
{
    if (frame->commit_lsn == 0 || frame->as.notification.xid == 0)
        return NONE;
    return (struct commit){frame->commit_lsn, frame->as.notification.xid};
}

/* ---- transactions of the pending list */

static bool
is_late(const struct session_ends *ends, uint64_t xid)
{
    for (unsigned i = 0; i < ends->late_count; i++) {
        if (ends->late[i].transaction.xid == xid)
            return true;
    }
    return false;
}

static void
end_in_list(struct session_ends *ends)
{
    if (ends->of_list.xid != 0)
        queue_end(ends->session, &ends->of_list);
}

static void
open_in_list(struct session_ends *ends, struct commit transaction)
{
    if (transaction.xid == ends->of_list.xid || transaction.xid == ends->of_stream.xid ||
        is_late(ends, transaction.xid))
        return;
    end_in_list(ends);
    ends->of_list = transaction;
    wait(ends);
    hub_mark(ends->session->hub, HUB_ENDS);
}

/* ---- what a session is sent */

void
ends_note(struct session *session, const struct notification *notification)
{
    const struct commit transaction = transaction_of(&notification->frame);

    if (!session->has_ends || transaction.xid == 0)
        return;
    if (notification->is_retry || transaction.lsn < session->ends->of_stream.lsn)
        open_in_list(session->ends, transaction);
    else
        open_in_stream(session->ends, transaction);
}

bool
ends_note_batch(struct session *session, const struct fanout_batch *batch)
{
    const struct commit transaction = transaction_of(&batch->notifications[0]->frame);

    if (batch->is_mixed || transaction.lsn < session->ends->of_stream.lsn)
        return transaction.xid == 0 && !batch->is_mixed;
    open_in_stream(session->ends, transaction);
    return true;
}

struct notification *
ends_note_listed(struct session *session, struct notification *notification)
{
    const struct commit transaction = transaction_of(&notification->frame);
    struct ends_mark mark;

    if (!session->has_ends || transaction.xid == 0)
        return notification_ref(notification);
    open_in_list(session->ends, transaction);
    mark = ends_mark_of(session);
    mark.open_xid = transaction.xid;
    return notification_new_marked(notification, session->hub->epoch, mark);
}

void
ends_note_deferred(struct session *session, const struct notification *notification)
{
    const struct commit transaction = transaction_of(&notification->frame);
    const struct entry_id id =
        entry_id_is_zero(notification->first) ? notification->id : notification->first;

    if (!session->has_ends || transaction.xid == 0 || notification->is_retry ||
        transaction.lsn < session->ends->of_stream.lsn ||
        transaction.xid == session->ends->of_list.xid || is_late(session->ends, transaction.xid))
        return;
    open_in_stream(session->ends, transaction);
    cursor_advance(&session->ends->rest, notification->shard, id);
}

void
ends_note_read(struct session *session, const struct frame *frame)
{
    const struct commit transaction = transaction_of(frame);

    if (transaction.lsn <= session->ends->of_stream.lsn)
        return;
    session->ends->of_stream = transaction;
    wait(session->ends);
}

void
ends_note_open(struct session *session, uint64_t xid)
{
    if (xid != 0)
        open_in_list(session->ends, (struct commit){.xid = xid});
}

/* ---- the ends */

/*
 * True if the streams of a live session have no more of the transaction. Before a first notification
 * was read from both streams since the start, or since the shard is followed, only the WAL that they
 * cover tells. After a restore, an earlier transaction may have a higher LSN.
 */
static bool
has_ended(const struct session *session, struct commit transaction)
{
    const struct hub *hub = session->hub;
    const unsigned own = session->client.own_shard;
    const struct commit a = hub->ends.offered[0], b = hub->ends.offered[own];
    const bool is_last = a.xid == transaction.xid || b.xid == transaction.xid;
    const uint64_t lsn = a.xid == transaction.xid   ? a.lsn
                         : b.xid == transaction.xid ? b.lsn
                                                    : transaction.lsn;

    return (!is_last && (a.lsn > lsn || b.lsn > lsn || (a.xid != 0 && b.xid != 0))) ||
           (hub->covered[0].lsn > lsn && hub->covered[own].lsn > lsn);
}

static void
advance(struct session_ends *ends)
{
    struct session *session = ends->session;
    const struct session_pending *pending = &session->pending;

    while (ends->late_count > 0 && is_sent(session, ends->late[0].rest) &&
           !session_is_full(session)) {
        queue_end(session, &ends->late[0].transaction);
        drop_first_late(ends);
    }
    ends->is_full = session_is_full(session);
    if (session->state == SESSION_LIVE && !ends->is_full) {
        if (ends->of_list.xid != 0 && !pending->is_due && !pending->is_rewound &&
            has_ended(session, ends->of_list))
            end_in_list(ends);
        if (ends->of_stream.xid != 0 && has_ended(session, ends->of_stream))
            end_in_stream(ends);
    }
    if (ends->of_stream.xid == 0 && ends->of_list.xid == 0 && ends->late_count == 0) {
        DL_DELETE(session->hub->ends.waiting, ends);
        ends->is_waiting = false;
    }
}

void
ends_advance(struct hub *hub)
{
    struct session_ends *ends, *next;

    DL_FOREACH_SAFE (hub->ends.waiting, ends, next)
        advance(ends);
    merged_batch_end(&hub->ends.merged);
}

void
ends_sent(struct session *session)
{
    if (session->ends->is_full && outbound_is_empty(&session->outbound))
        hub_mark(session->hub, HUB_ENDS);
}

void
ends_offered(struct hub *hub, const struct notification *notification)
{
    const struct commit transaction = transaction_of(&notification->frame);

    if (!notification->is_retry && transaction.xid != 0 &&
        notification->frame.as.notification.attempts == 0)
        hub->ends.offered[notification->shard] = transaction;
}

void
ends_followed(struct hub *hub, unsigned shard)
{
    hub->ends.offered[shard] = NONE;
}

/* ---- a session */

void
ends_begin(struct session *session)
{
    session->has_ends = true;
    session->ends = memory_new(sizeof(*session->ends));
    session->ends->session = session;
}

void
ends_reset(struct session *session)
{
    struct session_ends *ends = session->ends;

    if (!session->has_ends)
        return;
    ends->of_stream = ends->of_list = NONE;
    ends->late_count = 0;
}

void
ends_leave(struct session *session)
{
    struct session_ends *ends = session->ends;

    if (!session->has_ends)
        return;
    if (ends->is_waiting)
        DL_DELETE(session->hub->ends.waiting, ends);
    free(ends->late);
    free(ends);
    session->ends = NULL;
    session->has_ends = false;
}

void
ends_close(struct hub *hub)
{
    for (unsigned own = 0; own < STORE_SHARDS_MAX; own++)
        fanout_batch_unref(hub->ends.shared[own].batch);
    merged_batch_end(&hub->ends.merged);
}
