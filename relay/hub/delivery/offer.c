/* offer.c: decides what happens to a notification that a session is offered. */
#include "hub/delivery/offer.h"

#include "hub/delivery/session_inflight.h"
#include "hub/delivery/stall.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/members.h"
#include "hub/session/position.h"
#include "hub/session/queue.h"
#include "hub/session/shed.h"
#include "hub/session/state.h"

static bool
is_new(const struct session *session, const struct note *note)
{
    return cursor_is_before(&session->cursor, note->shard, note->id);
}

/* It expired before it was queued: what is new of it is told as a gap. */
static void
lose(struct session *session, const struct note *note)
{
    if (!note->is_retry && is_new(session, note)) /* else shown before, or told by the error log */
        session_gap_later(session, session->cursor, "expired");
}

/*
 * A poll resumes from the position of its last notification: one that reports an earlier position
 * than the session's cursor is sent with the cursor instead.
 */
static void
queue(struct session *session, struct note *note)
{
    struct cursor cursor = session->cursor;
    struct note *moved;

    if (!session->is_poll || cursor_reaches(note_told(note, session->client.own_shard), cursor)) {
        session_queue(session, note);
        return;
    }
    if (!note->is_retry)
        cursor_advance(&cursor, note->shard, note->id);
    moved = session_note_at(session, note, cursor, NULL);
    session_queue(session, moved);
    note_unref(moved);
}

static void
enqueue(struct session *session, struct note *note,
        bool (*enter)(struct session *session, struct note *note))
{
    if (note_is_expired(note))
        lose(session, note);
    else if (!session->is_poll && shed_takes(session->hub, note))
        session_shed(session, note);
    else if (!note->needs_ack || enter(session, note))
        queue(session, note);
}

/* What of it is hidden and waits for an ack goes on waiting. */
static bool
is_hidden(const struct session *session, const struct note *note)
{
    return !topics_show(session->topics, note->frame.as.note.topic);
}

void
session_enqueue(struct session *session, struct note *note)
{
    if (is_hidden(session, note))
        window_hide(session, note);
    else
        enqueue(session, note, window_enter);
}

void
session_enqueue_owed(struct session *session, struct note *note)
{
    if (is_hidden(session, note))
        window_hide_owed(session, note);
    else
        enqueue(session, note, window_enter_owed);
}

void
session_give_unowed(struct session *session, struct note *note)
{
    if (session->state == SESSION_CLOSED || !session_is_for(session, &note->frame) ||
        is_hidden(session, note))
        return;
    if (session->outbound.count >= OUTBOUND_MAX)
        session_tell_missed(session, note, "shed");
    else
        session_queue(session, note);
}

/* A slow reader costs its queue and no more: it pulls the rest later. */
void
session_pause(struct session *session)
{
    if (session->state != SESSION_LIVE)
        return;
    session->cursor = session_reached(session); /* before what is offered */
    session_set_state(session, SESSION_CATCHING_UP);
}

void
session_offer(struct session *session, struct note *note)
{
    if (session->state == SESSION_CATCHING_UP && session->is_blocked)
        session_passed(session, note->line_len);
    if (session->state != SESSION_LIVE || !is_new(session, note))
        return;
    if (session_is_full(session)) {
        session_passed(session, note->line_len);
        session_pause(session);
        return;
    }
    session_enqueue(session, note);
    cursor_advance(&session->cursor, note->shard, note->id);
}

void
session_offer_run(struct hub *hub, struct session *session, struct run *run)
{
    const struct note *first = run->notes[0];

    if (session->state == SESSION_LIVE && is_new(session, first) && !run_is_stale(run)) {
        if ((session->has_topics && !topics_show(session->topics, first->frame.as.note.topic)) ||
            session_queue_run(hub, session, run)) {
            *cursor_in(&session->cursor, first->shard) = run->notes[run->count - 1]->id;
            return;
        }
    }
    for (unsigned i = 0; i < run->count; i++)
        session_offer(session, run->notes[i]);
}

void
session_offer_again(struct session *session, struct note *note)
{
    if (session->state < SESSION_INBOX)
        return; /* the inbox, read later, has it */
    window_miss(session, note);
    if (session->state == SESSION_LIVE && !session_is_full(session)) {
        session_enqueue(session, note);
        cursor_advance(&session->cursor, note->shard, note->id);
        return;
    }
    inbox_miss(&session->inbox);
    window_defer(session);
}
