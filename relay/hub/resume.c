/*
 * resume.c: the life of a session after `connected`: PENDING, STREAM, LIVE (session_private.h), and
 * back to PENDING when a full in-flight window has room again: a pass of the pending list, or of
 * the deferred notifications in the stream. LOADING, before `connected`, is in loading.c.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"
#include "wire/codes.h"

#define QUERIED_MIN 16
#define QUERIED_MAX 256
#define REFILL_EVERY_S 0.05

/* ---- PENDING */

/* Without retries there is no ack timeout: only the cursor shows whether it was sent. */
static bool
is_new_to_poll(const struct session *session, const struct entry *entry)
{
    return (entry->frame.flags & FRAME_RETRY_ENABLED) != 0 ||
           cursor_is_before(&session->resume.started_at, entry->shard, entry->id);
}

/* False if the in-flight window has no room. */
static bool
deliver_pending(struct session *session, const struct entry *entry)
{
    struct deferral *deferral = &session->pending.deferral;
    const struct deferral before = *deferral;
    const bool is_new = session->has_deferral && !deferral->by_stream &&
                        cursor_is_before(&deferral->from, entry->shard, entry->first);
    struct notification *notification;
    bool has_room;

    if (is_new)
        *cursor_in(&deferral->from, entry->shard) = entry->first;
    if (!session_is_recipient(session, &entry->frame) || (entry->is_ended && !is_new))
        return true; /* the user left the audience, and the ack stays pending; or it is known */
    if (session->resume.is_continued && !is_new && !is_new_to_poll(session, entry))
        return true;
    notification = session_notification_new(session, entry, shed_cursor(session, session->cursor));
    has_room = session_admit_pending(session, notification,
                                     entry->is_acked   ? INFLIGHT_ACKED
                                     : entry->is_ended ? INFLIGHT_ENDED
                                                       : INFLIGHT_OPEN,
                                     is_new);
    notification_unref(notification);
    if (!has_room)
        *deferral = before;
    return has_room;
}

static void
end_deferral(struct session *session)
{
    session->has_deferral = false;
    session->pending.deferral = (struct deferral){.by_stream = false};
    if (session->pending.pass == PASS_FROM_STREAM)
        session->pending.pass = PASS_NONE;
    free(session->pending.early);
    session->pending.early = NULL;
    session->pending.early_count = 0;
    free(session->pending.ended);
    session->pending.ended = NULL;
    session->pending.ended_count = session->pending.queried = session->pending.queried_max = 0;
}

/* The end of a pass: of the pending list, or of the part that the in-flight window has room for. */
static void
end_pass(struct session *session, bool is_complete)
{
    struct session_pending *pending = &session->pending;

    pending->pass = !is_complete                                           ? PASS_DUE
                    : session->has_deferral && pending->deferral.by_stream ? PASS_FROM_STREAM
                                                                           : PASS_NONE;
    if (pending->pass == PASS_DUE)
        pending->ended_count = 0; /* this pass does not reach them */
    else if (pending->pass == PASS_NONE)
        end_deferral(session);
    session_set_state(session, SESSION_STREAM);
}

static struct cursor
pending_limit(const struct session *session)
{
    const struct deferral *deferral = &session->pending.deferral;

    return session->has_deferral && deferral->by_stream
               ? cursor_min(deferral->from, session->cursor)
               : session->cursor;
}

/* Returns false at the first notification for which the in-flight window has no room. */
static bool
deliver_page(struct session *session, const struct store_page *page)
{
    struct session_pending *pending = &session->pending;
    const struct cursor end = pending_limit(session);

    for (size_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];

        if (cursor_is_before(&end, entry->shard, entry->first))
            continue; /* read from the stream */
        ends_meet_listed(session, &entry->frame);
        if (!deliver_pending(session, entry))
            return false;
        cursor_advance(&pending->at, entry->shard, entry->first);
    }
    pending->at = cursor_max(pending->at, cursor_min(page->last, end));
    if (session->has_deferral && !pending->deferral.by_stream)
        pending->deferral.from = cursor_max(pending->deferral.from, pending->at);
    return true;
}

static void
on_pending(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;
    struct session_pending *pending = &session->pending;
    const struct cursor from = pending->deferral.from;
    bool has_room;

    if (!session_page_arrived(session, rc, page, false) || !groups_are_current(&session->groups))
        return;
    session_mark(session, READY_ADVANCE);
    if (page->lacks_ended && session->has_deferral)
        pending->deferral.by_stream = true;
    else if (page->lost_count > 0)
        session_gap(session, from, session->cursor, "trimmed");
    has_room = deliver_page(session, page);
    inflight_sweep(&session->inflight);
    if (!has_room)
        end_pass(session, false);
    else if (!page->has_more || cursor_reaches(pending->at, pending_limit(session)))
        end_pass(session, true);
    else if (inflight_free_slots(&session->inflight) <= 0 && pending->pass == PASS_ON)
        end_pass(session, false);
    ends_settle(session);
}

static void
read_pending(struct session *session)
{
    struct session_pending *pending = &session->pending;
    const bool has_received = session->has_deferral && !pending->deferral.by_stream;
    /* What ended follows up to the first notification without room: the page has it, too. */
    const int rows = inflight_free_slots(&session->inflight) + has_received;
    struct store_pending_part part = {
        .after = pending->at,
        .last = pending_limit(session),
        .max = pending->pass == PASS_REREAD || rows >= SESSION_PAGE ? SESSION_PAGE
               : rows > 0                                           ? (size_t)rows
                                                                    : 1,
        .has_received = has_received,
        .received = pending->deferral.from,
        .undelivered_only = session->resume.is_continued,
    };

    /* Each notification of a page may be followed by the end of its transaction. */
    if (session_is_full(session) ||
        session->outbound.count + pending->query_count + 2 * SESSION_PAGE > OUTBOUND_MAX)
        return; /* session_send marks the session again */
    if (session->has_deferral && pending->deferral.by_stream &&
        cursor_reaches(pending->at, part.last)) {
        end_pass(session, true);
        session_mark(session, READY_ADVANCE);
        return;
    }
    session_read_pending(session, &part, on_pending);
}

/* ---- STREAM */

/* The stream is read from deferral.from, instead of session->cursor. */
static bool
reads_deferred(const struct session *session)
{
    return session->pending.pass == PASS_FROM_STREAM;
}

/* How a deferred notification of the stream has ended, if it was asked about. */
static enum inflight_state
known_state(const struct session *session, const struct notification *notification)
{
    const struct session_pending *pending = &session->pending;

    for (unsigned i = 0; i < pending->ended_count; i++) {
        if (memcmp(pending->ended[i].id, notification->frame.as.notification.id,
                   sizeof(pending->ended[i].id)) == 0)
            return (enum inflight_state)pending->ended[i].state;
    }
    return INFLIGHT_OPEN;
}

/*
 * A pass of the stream ends at a deferred notification. The store is asked whether it and the next
 * ones have ended: about more of them if all of the last ones had.
 */
static void
begin_query(struct session *session)
{
    struct session_pending *pending = &session->pending;

    if (pending->ended == NULL)
        pending->ended = memory_new(QUERIED_MAX * sizeof(*pending->ended));
    if (pending->queried_max == 0 || pending->is_open)
        pending->queried_max = QUERIED_MIN;
    else if (pending->queried_max < QUERIED_MAX)
        pending->queried_max *= 2;
    pending->queried = pending->ended_count = 0;
    pending->is_open = false;
}

/* Asks about the next entry of the stream. False: enough were asked about. */
static bool
query_state(struct session *session, unsigned shard, struct entry_id id, const struct frame *frame,
            bool is_retry)
{
    struct session_pending *pending = &session->pending;

    if (is_retry || (frame->flags & FRAME_ACK_REQUIRED) == 0 ||
        !cursor_is_before(&pending->deferral.from, shard, id) ||
        !session_is_recipient(session, frame))
        return true;
    if (pending->queried == pending->queried_max ||
        !session_query_state(session, shard, id, frame->as.notification.id))
        return false;
    pending->queried++;
    return true;
}

/*
 * Reads a deferred notification from the stream. False if the in-flight window has no room:
 * then the session continues after its cursor.
 */
static bool
deliver_deferred(struct session *session, struct notification *notification)
{
    struct deferral *deferral = &session->pending.deferral;
    const struct deferral before = *deferral;
    struct cursor cursor = session->cursor;
    struct notification *moved;
    bool has_room;

    cursor_advance(&deferral->from, notification->shard, notification->id);
    cursor_advance(&cursor, notification->shard, notification->id);
    moved = session_notification_at(session, notification, shed_cursor(session, cursor), NULL);
    has_room = session_admit_pending(session, moved, known_state(session, notification), true);
    notification_unref(moved);
    if (has_room)
        return true;
    ends_note_held(session, notification);
    *deferral = before;
    session->pending.pass = PASS_DUE;
    session->pending.at = cursor_max(session->pending.at, deferral->from);
    return false;
}

/* True if a stream entry is sent to this session, which has read up to stream_cursor. */
static bool
is_wanted(const struct session *session, unsigned shard, struct entry_id id,
          const struct frame *frame, bool is_retry)
{
    const bool is_deferred = reads_deferred(session) && (frame->flags & FRAME_ACK_REQUIRED) != 0 &&
                             cursor_is_before(&session->pending.deferral.from, shard, id);

    return !is_retry && (is_deferred || cursor_is_before(&session->cursor, shard, id)) &&
           session_is_recipient(session, frame);
}

/* The session has what it wants of the entry. */
static void
advance_past(struct session *session, unsigned shard, struct entry_id id)
{
    if (reads_deferred(session))
        cursor_advance(&session->pending.deferral.from, shard, id);
    cursor_advance(&session->cursor, shard, id);
}

/* Returns false like deliver_deferred. */
static bool
deliver_next(struct session *session, struct notification *notification)
{
    if (reads_deferred(session))
        ends_meet_listed(session, &notification->frame);
    if (!notification->needs_ack || !reads_deferred(session))
        session_admit(session, notification);
    else if (!session_was_sent_early(session, notification) &&
             !deliver_deferred(session, notification))
        return false;
    advance_past(session, notification->shard, notification->id);
    return true;
}

/* Everything up to here was read from the stream. */
static void
reach(struct session *session, struct cursor cursor)
{
    struct deferral *deferral = &session->pending.deferral;

    if (!reads_deferred(session)) {
        session->cursor = cursor_max(session->cursor, cursor);
        return;
    }
    deferral->from = cursor_max(deferral->from, cursor);
    if (!cursor_reaches(deferral->from, session->cursor))
        return;
    session->cursor = deferral->from;
    end_deferral(session);
}

static void
query_states_of_page(struct session *session, const struct store_page *page, size_t from)
{
    begin_query(session);
    for (size_t i = from; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];

        if (!query_state(session, entry->shard, entry->id, &entry->frame, entry->is_retry))
            return;
    }
}

static void
query_states_of_buffer(struct session *session)
{
    const struct replay_buffer *buffer = &session->hub->replay_buffer;
    const struct notification *next;
    struct cursor after = session->pending.deferral.from;

    begin_query(session);
    while ((next = replay_buffer_next(buffer, session->client.own_shard, after)) != NULL &&
           query_state(session, next->shard, next->id, &next->frame, next->is_retry))
        cursor_advance(&after, next->shard, next->id);
}

static void
deliver_range(struct session *session, const struct store_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];
        struct cursor cursor = session->cursor;
        struct notification *notification;
        bool is_delivered;

        if (session_is_full(session))
            return;
        if (!is_wanted(session, entry->shard, entry->id, &entry->frame, entry->is_retry)) {
            advance_past(session, entry->shard, entry->id);
            continue;
        }
        cursor_advance(&cursor, entry->shard, entry->id);
        notification = session_notification_new(session, entry, shed_cursor(session, cursor));
        is_delivered = deliver_next(session, notification);
        notification_unref(notification);
        if (!is_delivered) {
            query_states_of_page(session, page, i);
            return;
        }
    }
    if (page->seen > 0)
        reach(session, page->last);
    else /* the store has no more: later notifications arrive live */
        reach(session, replay_buffer_base(&session->hub->replay_buffer, session->client.own_shard));
}

static struct cursor
stream_cursor(const struct session *session)
{
    return reads_deferred(session) ? session->pending.deferral.from : session->cursor;
}

static void
on_stream(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;
    const struct cursor from = stream_cursor(session);

    if (!session_page_arrived(session, rc, page, true) || !groups_are_current(&session->groups))
        return;
    session_mark(session, READY_ADVANCE);
    if (page->seen > 0)
        reach(session, cursor_max(from, page->first));
    deliver_range(session, page);
    if (page->state != STORE_RANGE_TRIMMED)
        return;
    session_gap(session, from, session->cursor, "trimmed");
    session->pending.is_rewound = true; /* a retry of a trimmed notification is only there */
}

static void
read_replay_buffer(struct session *session)
{
    const struct replay_buffer *buffer = &session->hub->replay_buffer;
    const unsigned own = session->client.own_shard;
    struct notification *notification;

    while ((notification = replay_buffer_next(buffer, own, stream_cursor(session))) != NULL) {
        if (session_is_full(session))
            return;
        if (!is_wanted(session, notification->shard, notification->id, &notification->frame,
                       notification->is_retry)) {
            advance_past(session, notification->shard, notification->id);
        } else if (!deliver_next(session, notification)) {
            query_states_of_buffer(session);
            session_mark(session, READY_ADVANCE);
            return;
        }
    }
    if (reads_deferred(session)) {
        reach(session, cursor_min(session_head(session), session->cursor));
        if (reads_deferred(session))
            hub_repeat_later(session->hub); /* another relay has read further */
        else
            session_mark(session, READY_ADVANCE);
        return;
    }
    session_set_state(session, SESSION_LIVE);
    session_mark(session, READY_REFILL); /* acks and retries arrived meanwhile */
    ends_settle(session);
}

static void
read_stream(struct session *session)
{
    if (session_is_full(session))
        return; /* session_send marks the session again */
    if (replay_buffer_follows(&session->hub->replay_buffer, session->client.own_shard,
                              stream_cursor(session)))
        read_replay_buffer(session);
    else
        session_read_range(session, stream_cursor(session), SESSION_PAGE, on_stream);
}

/* True if sessions of users in the shard can continue. */
static bool
is_shard_ready(const struct hub *hub, unsigned shard)
{
    /* A hub that is closing has no reader, and its sessions end. */
    return hub->has_head && hub->backfill.state != BACKFILL_READING &&
           (hub->reader == NULL || reader_follows(hub->reader, shard));
}

void
session_advance(struct session *session)
{
    struct hub *hub = session->hub;
    const bool is_ready = is_shard_ready(hub, session->client.own_shard);

    if (session->state == SESSION_FAILED) {
        session->socket.transport->close(session->socket.handle, GATE_CLOSE_RESTART,
                                         "internal error", 0);
        return;
    }
    if (groups_are_wanted(&session->groups) && store_replies(hub->store) &&
        session->state != SESSION_CLOSED && (is_ready || session->state != SESSION_LOADING))
        session_request_groups(session);
    if (!is_ready || session->requests.is_awaited || !groups_are_current(&session->groups))
        return;
    switch (session->state) {
    case SESSION_LOADING:
        session_load(session);
        return;
    case SESSION_PENDING:
        read_pending(session);
        return;
    case SESSION_STREAM:
        read_stream(session);
        return;
    case SESSION_LIVE:
    case SESSION_FAILED:
    case SESSION_CLOSED:
        return;
    }
}

/* ---- from LIVE back to PENDING */

static void
leave_refills(struct session *session)
{
    struct hub *hub = session->hub;

    if (session->pending.refill_prev == NULL)
        return;
    DL_DELETE2(hub->refills, session, pending.refill_prev, pending.refill_next);
    session->pending.refill_prev = NULL;
    if (hub->refills == NULL)
        ev_timer_stop(hub->loop, &hub->refill);
}

static void
wait_for_refill(struct session *session)
{
    struct hub *hub = session->hub;

    if (session->pending.refill_prev != NULL)
        return;
    DL_APPEND2(hub->refills, session, pending.refill_prev, pending.refill_next);
    if (!ev_is_active(&hub->refill))
        ev_timer_again(hub->loop, &hub->refill);
}

/* While shards are missing, a session stays live: reading the list would suspend it. */
static bool
lacks_shards(const struct session *session)
{
    const struct store *store = session->hub->store;

    return store_replies(store) && !store_serves(store, session->client.user);
}

/*
 * Notifications after `at` were not sent, so it does not matter whether acks are stored. Read from
 * its start, the list would contain notifications whose acks are queued in this relay.
 */
static bool
must_wait(struct session *session)
{
    const struct hub *hub = session->hub;

    return session->pending.query_count > 0 || lacks_shards(session) ||
           (session->pending.is_rewound && hub->acks.queued.count > 0);
}

bool
session_refill(struct session *session)
{
    struct session_pending *pending = &session->pending;
    const int room = inflight_free_slots(&session->inflight);
    const bool can_go_on = pending->pass == PASS_DUE && (room > 0 || pending->ended_count > 0);

    if (session->state != SESSION_LIVE || (!pending->is_rewound && !can_go_on)) {
        leave_refills(session);
        return false;
    }
    if (must_wait(session) ||
        (!pending->is_rewound && pending->ended_count == 0 && 2 * room < pending->filled)) {
        wait_for_refill(session); /* few places are free, and more may be soon */
        return false;
    }
    leave_refills(session);
    session_pause(session); /* its cursor is after all notifications that were offered to it */
    if (pending->is_rewound)
        pending->at = (struct cursor){.own = {0, 0}};
    pending->pass = pending->is_rewound ? PASS_REREAD : PASS_ON;
    pending->is_rewound = false;
    pending->filled = 0;
    session_set_state(session, SESSION_PENDING);
    return true;
}

void
refills_wake(struct hub *hub)
{
    struct session *session;

    DL_FOREACH2(hub->refills, session, pending.refill_next)
    session_mark(session, READY_REFILL);
}

/* A session that waits for more places now refills those that are free. */
static void
on_refill(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;
    struct session *session;

    (void)loop;
    (void)events;
    DL_FOREACH2(hub->refills, session, pending.refill_next)
    session->pending.filled = 0;
    refills_wake(hub);
}

void
refills_open(struct hub *hub)
{
    ev_init(&hub->refill, on_refill);
    hub->refill.repeat = REFILL_EVERY_S;
    hub->refill.data = hub;
}

void
refills_stop(struct hub *hub)
{
    ev_timer_stop(hub->loop, &hub->refill);
}

void
session_leave_resume(struct session *session)
{
    session_leave_pages(session);
    leave_refills(session);
}

/* ---- other histories of the store */

void
session_translate_ids(struct session *session, unsigned shard,
                      void (*translate)(const struct hub *hub, unsigned shard, struct entry_id *id))
{
    const struct hub *hub = session->hub;

    translate(hub, shard, cursor_in(&session->cursor, shard));
    translate(hub, shard, cursor_in(&session->resume.checked, shard)); /* or started_at */
    if (session_has_gap(session))
        translate(hub, shard, cursor_in(&session->control.queue->gap_from, shard));
    translate(hub, shard, cursor_in(&session->pending.at, shard));
    translate(hub, shard, cursor_in(&session->pending.deferral.from, shard));
}

void
session_change_epoch(struct session *session)
{
    const struct cursor head = session_head(session);

    if (session->state == SESSION_LOADING) {
        session->resume.step = LOAD_POS;
        session->has_deferral = false;
        ends_reset(session);
        return;
    }
    end_deferral(session);
    ends_reset(session);
    session->pending.at = (struct cursor){.own = {0, 0}};
    free(session->row_order);
    session->row_order = NULL;
    session_send_gap(session, head, head,
                     "epoch"); /* queued notifications are no longer in a stream */
    session->cursor = head;
    session_reconcile(session);
}
