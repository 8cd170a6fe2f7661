/*
 * ends.c: reports to a session that it has received all of a transaction.
 *
 * A session keeps its open transactions: those of which it was sent a part, but not the end. One
 * ends when the streams have no more of it, and nothing of it is held back by the in-flight window.
 * The streams and the pending list are both in commit order. So a transaction is behind the session
 * when the session has met a later one in either of them; the last one, when both streams of the
 * user cover the WAL behind its commit.
 *
 * What a shard lost in a failover, or could not receive, is stored behind later notifications of
 * the user's other shard. Until the session has read it, only the covered WAL decides.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"

#define OPEN_MAX 1024
#define OPEN_FIRST_ROOM 4
#define ALL_SHARDS ((1u << STORE_SHARDS_MAX) - 1)

_Static_assert(STORE_SHARDS_MAX < 32, "hub->ends.due has a bit for each shard");

struct open_transaction {
    struct commit commit;
    struct cursor rest; /* parts of it up to this cursor may be held back; zero: none */
    bool is_delivered;  /* a part was sent; otherwise all of it is held back */
    bool is_at_cursor;  /* found at the cursor of the client (ends_note_read) */
};

struct session_ends {
    struct session *session;
    struct session_ends *prev; /* links of hub->ends.waiting */
    struct session_ends *next;
    bool is_waiting;    /* in hub->ends.waiting */
    bool is_full;       /* ends wait until the outbound queue is empty */
    bool is_disordered; /* the streams and the pending list are not in commit order: see above */
    uint64_t met_lsn;   /* the latest transaction that the session has met */
    bool may_straddle;  /* first_xid may have a part in the pending list and a later one */
    uint64_t first_xid; /* the transaction at the session's first cursor; 0: the next one */
    struct open_transaction *open; /* in commit order */
    unsigned count;
    unsigned room;
};

static const struct commit NONE = {0, 0};

static struct commit
commit_of(const struct frame *frame)
{
    if (frame->commit_lsn == 0)
        return NONE;
    return (struct commit){frame->commit_lsn, frame->as.notification.xid};
}

/* ---- the lines */

/* The mark of a notification, or of the session's own cursor: NULL. */
static struct ends_mark
mark_of(const struct session *session, const struct notification *notification)
{
    const struct session_ends *ends = session->ends;
    const struct commit own = notification != NULL ? commit_of(&notification->frame) : NONE;
    struct ends_mark mark = {.is_ended = true};

    if (own.xid != 0)
        mark.open[mark.count++] = own;
    /* Earlier ones are held back: a client that resumes receives the rest of them. */
    for (unsigned i = ends->count; i > 0 && mark.count < ENDS_MARK_COUNT; i--) {
        if (ends->open[i - 1].is_delivered && ends->open[i - 1].commit.xid != own.xid)
            mark.open[mark.count++] = ends->open[i - 1].commit;
    }
    return mark;
}

struct ends_mark
ends_mark(const struct session *session)
{
    return mark_of(session, NULL);
}

/* Removes an open transaction, and queues its end if a part of it was sent. */
static void
end(struct session_ends *ends, unsigned nth)
{
    struct session *session = ends->session;
    const struct open_transaction ended = ends->open[nth];
    struct ends_mark mark;

    ends->count--;
    memmove(ends->open + nth, ends->open + nth + 1, (ends->count - nth) * sizeof(*ends->open));
    mark = mark_of(session, NULL);
    if (ended.is_delivered)
        session_queue_end(session, ended.commit.xid, shed_cursor(session, session_reached(session)),
                          &mark);
}

/* ---- which transactions have ended */

static bool
is_covered(const struct session *session, uint64_t lsn)
{
    const struct hub *hub = session->hub;

    return hub->covered[0].lsn > lsn && hub->covered[session->client.own_shard].lsn > lsn;
}

/*
 * True if the streams have no more of the transaction for a live session. Before a first
 * notification was read from both streams since the start, or since the shard is followed, the WAL
 * that they cover decides.
 */
static bool
is_over(const struct session *session, struct commit commit)
{
    const struct hub *hub = session->hub;
    const unsigned own = session->client.own_shard;
    const struct commit a = hub->ends.offered[0], b = hub->ends.offered[own];

    return a.lsn > commit.lsn || b.lsn > commit.lsn || is_covered(session, commit.lsn);
}

static bool
is_behind(const struct session_ends *ends, struct commit commit)
{
    const struct session *session = ends->session;

    if (ends->is_disordered)
        return session->state == SESSION_LIVE && is_covered(session, commit.lsn);
    return commit.lsn < ends->met_lsn ||
           (session->state == SESSION_LIVE && is_over(session, commit));
}

static void
wait_for_cover(struct session_ends *ends, bool is_waiting)
{
    struct session_ends **waiting =
        &ends->session->hub->ends.waiting[ends->session->client.own_shard];

    if (is_waiting && !ends->is_waiting)
        DL_APPEND(*waiting, ends);
    else if (!is_waiting && ends->is_waiting)
        DL_DELETE(*waiting, ends);
    ends->is_waiting = is_waiting;
}

void
ends_settle(struct session *session)
{
    struct session_ends *ends = session->ends;
    bool is_waiting = false;

    if (!session->has_ends)
        return;
    if (ends->is_disordered && session->state == SESSION_LIVE)
        ends->is_disordered = !is_covered(session, session->hub->ends.disordered_lsn);
    for (unsigned i = 0; i < ends->count;) {
        const struct open_transaction *open = &ends->open[i];
        const bool has_rest = !session_is_complete_to(session, open->rest);

        if (!is_behind(ends, open->commit) || (open->is_delivered && has_rest)) {
            is_waiting |= !has_rest;
            i++;
        } else if (session_is_full(session)) {
            ends->is_full = true;
            break;
        } else {
            end(ends, i);
        }
    }
    wait_for_cover(ends, is_waiting && session->state == SESSION_LIVE);
}

void
ends_sent(struct session *session)
{
    if (!session->ends->is_full || !outbound_is_empty(&session->outbound))
        return;
    session->ends->is_full = false;
    ends_settle(session);
}

/* ---- what a session meets */

/* The lists of a client cannot wait for any number of ends: they load their rows instead. */
static void
limit_open(struct session_ends *ends)
{
    if (ends->count < OPEN_MAX)
        return;
    lists_reload(ends->session, NULL, false);
    end(ends, 0);
}

/* Returns the open transaction, which is opened if it was not. */
static struct open_transaction *
open_transaction(struct session_ends *ends, struct commit commit)
{
    unsigned nth = ends->count;

    while (nth > 0 && ends->open[nth - 1].commit.lsn > commit.lsn)
        nth--;
    if (nth > 0 && ends->open[nth - 1].commit.xid == commit.xid)
        return &ends->open[nth - 1];
    if (ends->count == OPEN_MAX && nth > 0)
        nth--;
    limit_open(ends);
    if (ends->count == ends->room) {
        ends->room = ends->room == 0 ? OPEN_FIRST_ROOM : ends->room * 2;
        ends->open = memory_grow(ends->open, ends->room * sizeof(*ends->open));
    }
    memmove(ends->open + nth + 1, ends->open + nth, (ends->count - nth) * sizeof(*ends->open));
    ends->count++;
    ends->open[nth] = (struct open_transaction){.commit = commit};
    return &ends->open[nth];
}

/* The session has met a part of the transaction: earlier ones are behind it. */
static void
meet(struct session_ends *ends, struct commit commit)
{
    if (commit.lsn <= ends->met_lsn)
        return;
    ends->met_lsn = commit.lsn;
    ends_settle(ends->session);
}

/*
 * A part of the transaction at the session's first cursor may be in the pending list, which the
 * session has not read to its end.
 */
static void
note_straddling(struct session_ends *ends, struct open_transaction *open)
{
    const struct session *session = ends->session;

    if (!ends->may_straddle)
        return;
    if (ends->first_xid == 0)
        ends->first_xid = open->commit.xid;
    if (ends->first_xid == open->commit.xid)
        open->rest = cursor_max(open->rest, session->resume.started_at);
    else
        ends->may_straddle = false;
}

static void
note_in_stream(struct session_ends *ends, struct commit commit, const struct notification *held)
{
    struct open_transaction *open;
    struct entry_id id;

    meet(ends, commit);
    open = open_transaction(ends, commit);
    note_straddling(ends, open);
    if (held == NULL) {
        open->is_delivered = true;
    } else {
        id = entry_id_is_zero(held->first) ? held->id : held->first;
        cursor_advance(&open->rest, held->shard, id);
    }
    if (ends->session->state == SESSION_LIVE)
        wait_for_cover(ends, true);
}

/* A client that resumes from a notification looks for the end of its transaction only. */
static bool
lacks_other_end(const struct session_ends *ends, struct commit own)
{
    for (unsigned i = 0; i < ends->count; i++) {
        if (ends->open[i].is_delivered && ends->open[i].commit.xid != own.xid)
            return true;
    }
    return false;
}

struct notification *
ends_note(struct session *session, struct notification *notification)
{
    const struct commit commit = commit_of(&notification->frame);
    struct ends_mark mark;

    if (session->has_ends && commit.xid != 0)
        note_in_stream(session->ends, commit, NULL);
    if (!session->has_ends || !lacks_other_end(session->ends, commit))
        return notification_ref(notification);
    mark = mark_of(session, notification);
    return notification_new_marked(notification, session->hub->epoch, &mark);
}

bool
ends_note_batch(struct session *session, const struct fanout_batch *batch)
{
    const struct commit commit = commit_of(&batch->notifications[0]->frame);

    if (batch->is_mixed)
        return false;
    if (commit.xid != 0)
        note_in_stream(session->ends, commit, NULL);
    return !lacks_other_end(session->ends, commit);
}

void
ends_note_held(struct session *session, const struct notification *notification)
{
    const struct commit commit = commit_of(&notification->frame);

    if (session->has_ends && commit.xid != 0)
        note_in_stream(session->ends, commit, notification);
}

struct notification *
ends_note_listed(struct session *session, struct notification *notification)
{
    const struct commit commit = commit_of(&notification->frame);
    struct open_transaction *open;
    struct ends_mark mark;

    if (!session->has_ends || commit.xid == 0)
        return notification_ref(notification);
    open = open_transaction(session->ends, commit);
    open->is_delivered = true;
    open->rest = cursor_max(open->rest, session->cursor);
    mark = mark_of(session, notification);
    if (session->state == SESSION_LIVE)
        hub_settle_ends(session->hub, session->client.own_shard);
    return notification_new_marked(notification, session->hub->epoch, &mark);
}

void
ends_meet_listed(struct session *session, const struct frame *frame)
{
    struct session_ends *ends = session->ends;
    const struct commit commit = commit_of(frame);

    if (!session->has_ends || commit.xid == 0)
        return;
    for (unsigned i = 0;
         !ends->is_disordered && i < ends->count && ends->open[i].commit.lsn < commit.lsn; i++)
        ends->open[i].rest = (struct cursor){.own = {0, 0}};
    meet(ends, commit);
    ends_settle(session);
}

/* ---- what a resumed client has read */

void
ends_begin_resumed(struct session *session, const struct ends_mark *mark,
                   const struct frame *at_cursor)
{
    struct session_ends *ends = session->ends;

    for (unsigned i = 0; i < mark->count; i++) {
        struct open_transaction *open = open_transaction(ends, mark->open[i]);

        open->is_delivered = true;
        open->rest = session->cursor;
    }
    if (!mark->is_ended)
        return;
    ends->may_straddle = true;
    ends->first_xid = at_cursor != NULL ? commit_of(at_cursor).xid : 0;
}

void
ends_note_read(struct session *session, const struct frame *frame, bool is_read)
{
    struct session_ends *ends = session->ends;
    const struct commit commit = commit_of(frame);
    struct open_transaction *open;

    if (commit.xid == 0)
        return;
    /* Of two streams, the earlier transaction ended before the client received the later one. */
    for (unsigned i = 0; i < ends->count; i++) {
        open = &ends->open[i];
        if (open->is_at_cursor && open->commit.lsn < commit.lsn)
            open->is_delivered = false;
    }
    open = open_transaction(ends, commit);
    open->is_at_cursor |= !open->is_delivered;
    open->is_delivered |= is_read;
    open->rest = session->cursor;
}

/* ---- the hub */

void
hub_settle_ends(struct hub *hub, unsigned shard)
{
    if (!hub->ends.is_used)
        return;
    hub->ends.due |= shard == 0 ? ALL_SHARDS : 1u << shard;
    hub_mark(hub, HUB_ENDS);
}

void
ends_advance(struct hub *hub)
{
    struct session_ends *ends, *next;
    const unsigned due = hub->ends.due;

    hub->ends.due = 0;
    for (unsigned own = 0; own < hub->shards; own++) {
        if ((due & 1u << own) == 0)
            continue;
        DL_FOREACH_SAFE (hub->ends.waiting[own], ends, next)
            ends_settle(ends->session);
        merged_batch_end(&hub->ends.shared[own].merged);
    }
}

void
ends_offered(struct hub *hub, const struct notification *notification)
{
    const struct commit commit = commit_of(&notification->frame);

    if (!notification->is_retry && commit.xid != 0 &&
        notification->frame.as.notification.attempts == 0)
        hub->ends.offered[notification->shard] = commit;
}

void
ends_followed(struct hub *hub, unsigned shard)
{
    hub->ends.offered[shard] = NONE;
}

static void
free_shared(struct hub *hub)
{
    for (unsigned own = 0; own < STORE_SHARDS_MAX; own++) {
        fanout_batch_unref(hub->ends.shared[own].batch);
        hub->ends.shared[own].batch = NULL;
    }
}

/* Streams that begin at different WAL positions: the newest LSN of these; otherwise 0. */
static uint64_t
newest_of_unequal(const struct hub *hub)
{
    uint64_t oldest = UINT64_MAX, newest = 0;

    for (unsigned shard = 0; hub->shards > 1 && shard < hub->shards; shard++) {
        const uint64_t lsn = store_newest_position(hub->store, shard).lsn;

        oldest = lsn != 0 && lsn < oldest ? lsn : oldest;
        newest = lsn > newest ? lsn : newest;
    }
    return oldest < newest ? newest : 0;
}

void
ends_change_epoch(struct hub *hub)
{
    free_shared(hub);
    memset(hub->ends.offered, 0, sizeof(hub->ends.offered));
    hub->ends.disordered_lsn = newest_of_unequal(hub);
}

void
hub_disorder_ends(struct hub *hub, uint64_t lsn)
{
    const uint64_t former = hub->ends.disordered_lsn;
    struct session *session;

    if (lsn <= former)
        return;
    hub->ends.disordered_lsn = lsn;
    if (former != 0 && hub->covered[0].lsn <= former)
        return; /* all sessions are disordered */
    DL_FOREACH (hub->sessions, session) {
        if (session->has_ends)
            ends_disorder(session);
    }
}

void
ends_begin_history(struct hub *hub, uint64_t newest_lsn)
{
    uint64_t *lsn = &hub->ends.disordered_lsn;
    struct session *session;

    *lsn = newest_lsn > *lsn ? newest_lsn : *lsn;
    for (unsigned shard = 0; shard < hub->shards; shard++)
        *lsn = hub->ends.offered[shard].lsn > *lsn ? hub->ends.offered[shard].lsn : *lsn;
    DL_FOREACH (hub->sessions, session) {
        if (!session->has_ends)
            continue;
        *lsn = session->ends->met_lsn > *lsn ? session->ends->met_lsn : *lsn;
        ends_disorder(session);
    }
    memset(hub->ends.offered, 0, sizeof(hub->ends.offered));
}

void
ends_close(struct hub *hub)
{
    free_shared(hub);
    for (unsigned own = 0; own < STORE_SHARDS_MAX; own++) {
        merged_batch_end(&hub->ends.shared[own].merged);
        merged_batch_end(&hub->ends.shared[own].merged_messages);
    }
}

/* ---- a session */

void
ends_begin(struct session *session)
{
    session->hub->ends.is_used = session->has_ends = true;
    session->ends = memory_new(sizeof(*session->ends));
    session->ends->session = session;
    session->ends->is_disordered = session->hub->ends.disordered_lsn != 0 &&
                                   !is_covered(session, session->hub->ends.disordered_lsn);
}

void
ends_disorder(struct session *session)
{
    session->ends->is_disordered = true;
}

void
ends_begin_new(struct session *session)
{
    const struct hub_ends *ends = &session->hub->ends;
    const struct commit a = ends->offered[0], b = ends->offered[session->client.own_shard];

    if (!session->has_ends)
        return;
    session->ends->may_straddle = true;
    session->ends->first_xid = a.lsn > b.lsn ? a.xid : b.xid;
}

void
ends_reset(struct session *session)
{
    struct session_ends *ends = session->ends;

    if (!session->has_ends)
        return;
    wait_for_cover(ends, false);
    ends->count = 0;
    ends->met_lsn = 0;
    ends->may_straddle = false;
    ends->first_xid = 0;
}

void
ends_leave(struct session *session)
{
    if (!session->has_ends)
        return;
    wait_for_cover(session->ends, false);
    free(session->ends->open);
    free(session->ends);
    session->ends = NULL;
    session->has_ends = false;
}
