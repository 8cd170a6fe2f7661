/* refill.c: decides when a live session reads its user's inbox again. */
#include "hub/resume/refill.h"

#include "hub/delivery/offer.h"
#include "hub/delivery/session_inflight.h"
#include "hub/session/backlog.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/cursors.h"
#include "hub/session/ready_list.h"
#include "hub/session/row_order.h"
#include "hub/session/state.h"

void
session_reconcile(struct session *session)
{
    /* Without an in-flight window no acknowledgement can have been missed. */
    if (session->inflight.room == 0 || session->state < SESSION_INBOX)
        return;
    if (session->inflight.count > 0)
        inbox_want_reconcile(&session->inbox);
    inbox_miss(&session->inbox);
    session_defer_inbox(session);
    session_mark(session, READY_REFILL);
}

/* A pass reads the whole inbox, so it does not start for every free slot. */
static bool
has_room(const struct session *session, bool is_heartbeat)
{
    int max = is_heartbeat ? session->inflight.size - 1 : session->inflight.size / 2;

    return inbox_has_missed(&session->inbox) || session->inflight.count <= max;
}

bool
session_wants_refill(const struct session *session, bool is_heartbeat)
{
    return inbox_is_deferred(&session->inbox) && session->state == SESSION_LIVE &&
           has_room(session, is_heartbeat);
}

void
session_refill(struct session *session)
{
    session->hub->deferred_count--;
    inbox_begin(&session->inbox);
    if (inbox_is_reconciling(&session->inbox))
        inflight_recheck(&session->inflight);
    session_pause(session); /* its cursor is after all notifications that were offered to it */
    session_set_state(session, SESSION_INBOX);
}

void
session_change_epoch(struct session *session)
{
    const struct cursor head = session_head(session);

    if (session->state == SESSION_GROUPING || session->state == SESSION_CHECKING)
        return; /* CHECKING uses the new epoch */
    backlog_clear(session);
    row_order_free(session);
    session_send_gap(session, head, head,
                     "epoch"); /* queued notifications are no longer in a stream */
    session->cursor = head;
    session_reconcile(session);
}
