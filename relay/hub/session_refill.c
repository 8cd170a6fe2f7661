/* session_refill.c: when a live session reads its user's inbox again. */
#include <stdio.h>

#include "hub/hub_private.h"

void
session_doubt(struct session *session)
{
    /* Who never was shown anything of the kind has nothing to look for. */
    if (session->unacked_room == 0 || session->state < SESSION_INBOX)
        return;
    session->wants_doubt = session->wants_doubt || session->unacked_count > 0;
    session->has_missed = true;
    window_defer(session);
    session_refill(session, false);
}

/* The inbox is read from its beginning: not for each place that is free. */
static bool
has_room(const struct session *session, bool is_beat)
{
    int most = is_beat ? session->window - 1 : session->window / 2;

    return session->has_missed || session->unacked_count <= most;
}

void
session_refill(struct session *session, bool is_beat)
{
    struct hub *hub = session->hub;

    if (!session->is_deferred || session->state != SESSION_LIVE || !has_room(session, is_beat))
        return;
    /*
     * The inbox does not know of acks and deferred lines that still wait here. A report to several
     * shards may be answered after it: what nobody waits for would then come behind later lines.
     */
    shown_flush(hub);
    if (hub->acks.count > 0 || shown_waits(hub) || session->deferring_count > 0) {
        hub->refill_waits = true;
        return;
    }
    session->is_deferred = false;
    session->has_missed = false;
    hub->deferred_count--;
    snprintf(session->inbox_at, sizeof(session->inbox_at), "0");
    session->is_doubting = session->wants_doubt;
    session->wants_doubt = false;
    if (session->is_doubting)
        window_doubt(session);
    session_pause(session); /* what it was offered, for it or not, is not looked at again */
    session_set_state(session, SESSION_INBOX);
    session_step(session);
}
