/* session_refill.c: when a live session reads its user's inbox again. */
#include "hub/hub_private.h"

void
session_doubt(struct session *session)
{
    /* Who never was shown anything of the kind has nothing to look for. */
    if (session->inflight.room == 0 || session->state < SESSION_INBOX)
        return;
    if (session->inflight.count > 0)
        inbox_want_reconcile(&session->inbox);
    inbox_miss(&session->inbox);
    window_defer(session);
    session_refill(session, false);
}

/* The inbox is read from its beginning: not for each place that is free. */
static bool
has_room(const struct session *session, bool is_beat)
{
    int most = is_beat ? session->inflight.size - 1 : session->inflight.size / 2;

    return inbox_has_missed(&session->inbox) || session->inflight.count <= most;
}

void
session_refill(struct session *session, bool is_beat)
{
    struct hub *hub = session->hub;

    if (!inbox_is_deferred(&session->inbox) || session->state != SESSION_LIVE ||
        !has_room(session, is_beat))
        return;
    /*
     * The inbox does not know of acks and deferred lines that still wait here. A report to several
     * shards may be answered after it: what nobody waits for would then come behind later lines.
     */
    shown_flush(hub);
    if (hub->acks.count > 0 || shown_waits(hub) || session->inbox.held_count > 0) {
        hub->refill_waits = true;
        return;
    }
    hub->deferred_count--;
    inbox_begin(&session->inbox);
    if (inbox_is_reconciling(&session->inbox))
        inflight_recheck(&session->inflight);
    session_pause(session); /* what it was offered, for it or not, is not looked at again */
    session_set_state(session, SESSION_INBOX);
    session_step(session);
}
