/* backlog.c: notifications in the inbox that wait for room in a session's in-flight window. */
#include "hub/session/backlog.h"

#include <stdlib.h>

#include "base/memory.h"
#include "hub/session/session_state.h"

static void
set(struct session *session, struct backlog *backlog)
{
    session->order.backlog = backlog;
    session->has_backlog = backlog != NULL;
}

void
backlog_free(struct session *session)
{
    free(session->order.backlog);
    set(session, NULL);
}

/* The backlog is reported until all notifications before its end were sent. */
void
backlog_end_if_empty(struct session *session)
{
    const struct backlog *backlog = session->order.backlog;

    if (backlog != NULL && backlog->waiting.count == 0 && !backlog->is_lost &&
        outbound_is_empty(&session->outbound))
        backlog_free(session);
}

void
backlog_restore(struct session *session, const struct backlog *reported)
{
    backlog_free(session);
    if (reported->waiting.count == 0 && !reported->is_lost)
        return;
    set(session, memory_new(sizeof(*reported)));
    *session->order.backlog = *reported;
}

void
backlog_add(struct session *session, const struct notification *notification, struct cursor behind)
{
    if (session->order.backlog == NULL)
        set(session, memory_new(sizeof(*session->order.backlog)));
    if (session->order.backlog->waiting.count == 0)
        session->order.backlog->behind = behind;
    tally_add(&session->order.backlog->waiting, notification->frame.as.notification.id);
}

bool
backlog_is_pending(const struct session *session)
{
    return session->order.backlog != NULL && session->order.backlog->waiting.count > 0;
}

void
backlog_query(struct session *session, const struct notification *notification)
{
    tally_add(&session->order.backlog->queried, notification->frame.as.notification.id);
}

/*
 * True if the inbox contains or contained older notifications that were not sent to this session.
 */
static bool
has_older(const struct session *session)
{
    const struct backlog *backlog = session->order.backlog;

    if (session->inbox.has_unread)
        return true;
    return backlog != NULL && !tally_equal(backlog->waiting, backlog->queried);
}

bool
backlog_decide(struct session *session, const struct notification *notification,
               bool is_not_pending)
{
    struct backlog *backlog = session->order.backlog;
    bool is_hidden =
        !subscription_has(&session->subscription, notification->frame.as.notification.topic);
    bool is_sent = is_not_pending && (is_hidden || !has_older(session));

    if (backlog != NULL && !notification->is_retry) {
        tally_remove(&backlog->queried, notification->frame.as.notification.id);
        if (is_sent)
            tally_remove(&backlog->waiting, notification->frame.as.notification.id);
    }
    return is_sent;
}

void
backlog_forget(struct session *session, const struct notification *notification)
{
    struct backlog *backlog = session->order.backlog;

    if (backlog == NULL || notification->is_retry)
        return;
    tally_remove(&backlog->queried, notification->frame.as.notification.id);
    /* otherwise it was read from the inbox and sent meanwhile */
    if (backlog_has(session, notification->shard, entry_id_score(notification->id)))
        tally_remove(&backlog->waiting, notification->frame.as.notification.id);
}

bool
backlog_has(const struct session *session, unsigned shard, uint64_t score)
{
    struct cursor behind;

    if (!backlog_is_pending(session))
        return false;
    behind = session->order.backlog->behind;
    return score > entry_id_score(*cursor_in(&behind, shard));
}

void
backlog_remove(struct session *session, const struct notification *notification)
{
    struct backlog *backlog = session->order.backlog;

    if (!backlog_has(session, notification->shard, notification->score))
        return;
    tally_remove(&backlog->waiting, notification->frame.as.notification.id);
    *cursor_in(&backlog->behind, notification->shard) =
        entry_id_of_score(notification->score, notification->id);
    if (backlog->waiting.count > 0 || backlog->waiting.sum == 0)
        return;
    /* The tally lacks a removed notification, and still contains one that was not removed. */
    backlog->waiting.sum = 0;
    backlog->is_lost = true;
}

void
backlog_clear(struct session *session)
{
    struct backlog *backlog = session->order.backlog;

    if (backlog == NULL)
        return;
    backlog->waiting = backlog->queried;
    backlog->is_lost = false;
    if (backlog->waiting.count == 0)
        backlog_free(session);
}

/*
 * A client that resumes before a queued notification needs the backlog at the time of queueing. The
 * notification reports it, unless it is part of the backlog.
 */
const struct backlog *
backlog_reported(const struct session *session, struct cursor cursor,
                 const struct notification *overtaken)
{
    static const struct backlog unknown = {.is_lost = true};
    const struct backlog *reported =
        overtaken != NULL ? overtaken->backlog : session->order.backlog;

    if (overtaken != NULL && overtaken->score != 0 && session->order.backlog != NULL)
        return &unknown;
    if (reported == NULL || reported->is_lost)
        return reported;
    return reported->waiting.count > 0 && !cursor_reaches(reported->behind, cursor) ? reported
                                                                                    : NULL;
}
