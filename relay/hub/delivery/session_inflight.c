/* session_inflight.c: which notifications that need an ack a session sends, holds back or drops. */
#include "hub/delivery/session_inflight.h"

#include "hub/delivery/report_queue.h"
#include "hub/session/backlog.h"
#include "hub/session/hub_state.h"
#include "hub/session/position.h"

void
window_defer(struct session *session)
{
    if (inbox_defer(&session->inbox))
        session->hub->deferred_count++;
}

/*
 * Nothing goes past what this session was not sent. A retry that waits was sent; a live session
 * reads it first all the same, a poll may be over before that.
 */
static bool
has_to_wait(const struct session *session)
{
    if (session->is_poll)
        return session->inbox.has_unread || backlog_waits(session);
    return inbox_is_deferred(&session->inbox);
}

bool
window_enter(struct session *session, struct note *note)
{
    struct inflight_entry *entry = inflight_find(&session->inflight, note->frame.as.note.id);

    if (entry != NULL)
        return inflight_repeat(entry);
    if (!inflight_is_full(&session->inflight) && !has_to_wait(session)) {
        inflight_add(&session->inflight, note);
        return true;
    }
    window_defer(session);
    if (!note->is_retry)
        backlog_add(session, note, session_reached(session));
    shown_defer(session, note);
    return false;
}

bool
window_enter_owed(struct session *session, struct note *note)
{
    struct inflight_entry *entry = inflight_find(&session->inflight, note->frame.as.note.id);

    if (entry != NULL) /* a retry is a copy: else the answer is older than that */
        return note->is_retry && inflight_repeat(entry);
    if (inbox_was_acked(&session->inbox, note->frame.as.note.id))
        return false;
    if (!inflight_is_full(&session->inflight) && !session->inbox.has_refused) {
        inflight_add(&session->inflight, note);
        backlog_take(session, note);
        return true;
    }
    session->inbox.has_refused = true; /* what comes after it stays behind it */
    window_defer(session);
    return false;
}

/* A position tells of all that waits in the inbox, so that it holds for whatever topics. */
void
window_hide(struct session *session, struct note *note)
{
    if (!note->needs_ack || note->is_retry || note->is_open_ended || !backlog_waits(session))
        return;
    backlog_add(session, note, session_reached(session));
    shown_defer(session, note);
}

void
window_hide_owed(struct session *session, const struct note *note)
{
    if (!session->inbox.has_refused)
        backlog_take(session, note);
}

void
window_miss(struct session *session, const struct note *note)
{
    struct inflight_entry *entry = inflight_find(&session->inflight, note->frame.as.note.id);

    if (entry != NULL)
        entry->is_missed = true;
}

void
window_wrote(struct session *session, struct note *note)
{
    struct inflight_entry *entry = inflight_find(&session->inflight, note->frame.as.note.id);

    if (entry == NULL)
        return; /* acked by another session meanwhile */
    entry->is_written = true;
    shown_add(session, note);
}

void
window_drop(struct session *session, const struct note *note)
{
    struct inflight_entry *entry = inflight_find(&session->inflight, note->frame.as.note.id);

    if (entry != NULL)
        inflight_remove(&session->inflight, entry);
}

int
window_forget(struct session *session, const unsigned char id[16])
{
    struct inflight_entry *entry = inflight_find(&session->inflight, id);
    int shard = -1;

    if (entry != NULL) {
        shard = entry->shard;
        if (session->state == SESSION_INBOX)
            inbox_keep_acked(&session->inbox, id);
        inflight_remove(&session->inflight, entry);
    }
    return shard;
}

void
window_give_up(struct session *session, const unsigned char id[16])
{
    const struct inflight_entry *entry = inflight_find(&session->inflight, id);

    if (entry != NULL && entry->is_written)
        (void)window_forget(session, id);
}

void
window_drop_refuted(struct session *session)
{
    struct inflight *inflight = &session->inflight;

    if (!inbox_is_reconciling(&session->inbox))
        return;
    inbox_end_reconcile(&session->inbox);
    for (int i = inflight->count - 1; i >= 0; i--) {
        struct inflight_entry *entry = &inflight->entries[i];

        if (inflight_is_refuted(entry))
            inflight_remove(inflight, entry);
        else if (entry->is_written)
            shown_keep(session, entry);
    }
}
