/*
 * session_inflight.c: selects the notifications with ack that a session sends, holds back or drops.
 */
#include "hub/delivery/session_inflight.h"

#include "hub/delivery/report_queue.h"
#include "hub/session/backlog.h"
#include "hub/session/hub_state.h"
#include "hub/session/cursors.h"

void
session_defer_inbox(struct session *session)
{
    if (inbox_defer(&session->inbox))
        session->hub->deferred_count++;
}

/*
 * A notification must not overtake a notification that was not sent to this session. Retries in the
 * inbox were sent before. A live session always reads them first, but a poll may end before it has
 * read them.
 */
static bool
has_to_wait(const struct session *session)
{
    if (session->is_poll)
        return session->inbox.has_unread || backlog_is_pending(session);
    return inbox_is_deferred(&session->inbox);
}

bool
session_inflight_add(struct session *session, struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);

    if (entry != NULL)
        return inflight_repeat(entry);
    if (!inflight_is_full(&session->inflight) && !has_to_wait(session)) {
        inflight_add(&session->inflight, notification);
        return true;
    }
    session_defer_inbox(session);
    if (!notification->is_retry)
        backlog_add(session, notification, session_reached(session));
    delivery_report_defer(session, notification);
    return false;
}

bool
session_inflight_add_from_inbox(struct session *session, struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);

    if (entry != NULL) /* unless it is a retry, the page is older than the retry */
        return notification->is_retry && inflight_repeat(entry);
    if (inbox_was_acked(&session->inbox, notification->frame.as.notification.id))
        return false;
    if (!inflight_is_full(&session->inflight) && !session->inbox.is_full) {
        inflight_add(&session->inflight, notification);
        backlog_remove(session, notification);
        return true;
    }
    session->inbox.is_full = true; /* prevents later notifications from overtaking */
    session_defer_inbox(session);
    return false;
}

/* A cursor is reported with the whole backlog, so that it is valid for any topics. */
void
session_inflight_hide(struct session *session, struct notification *notification)
{
    if (!notification->needs_ack || notification->is_retry || notification->is_open_ended ||
        !backlog_is_pending(session))
        return;
    backlog_add(session, notification, session_reached(session));
    delivery_report_defer(session, notification);
}

void
session_inflight_hide_from_inbox(struct session *session, const struct notification *notification)
{
    if (!session->inbox.is_full)
        backlog_remove(session, notification);
}

void
session_inflight_missed(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);

    if (entry != NULL)
        entry->is_missed = true;
}

void
session_inflight_written(struct session *session, struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);

    if (entry == NULL)
        return; /* another session acknowledged it */
    entry->is_written = true;
    delivery_report_add(session, notification);
}

void
session_inflight_drop(struct session *session, const struct notification *notification)
{
    struct inflight_entry *entry =
        inflight_find(&session->inflight, notification->frame.as.notification.id);

    if (entry != NULL)
        inflight_remove(&session->inflight, entry);
}

int
session_inflight_remove(struct session *session, const unsigned char id[16])
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
session_inflight_end_retries(struct session *session, const unsigned char id[16])
{
    const struct inflight_entry *entry = inflight_find(&session->inflight, id);

    if (entry != NULL && entry->is_written)
        (void)session_inflight_remove(session, id);
}

void
session_inflight_reconcile(struct session *session)
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
            delivery_report_renew(session, entry);
    }
}
