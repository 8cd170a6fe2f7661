/* backlog.c: notifications that wait in the inbox for room in a session's in-flight window. */
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

/* Positions, and notifications in the queue, report it until all before was sent. */
void
backlog_end_if_empty(struct session *session)
{
    const struct backlog *backlog = session->order.backlog;

    if (backlog != NULL && backlog->waits.count == 0 && !backlog->is_gone &&
        outbound_is_empty(&session->outbound))
        backlog_free(session);
}

void
backlog_restore(struct session *session, const struct backlog *told)
{
    backlog_free(session);
    if (told->waits.count == 0 && !told->is_gone)
        return;
    set(session, memory_new(sizeof(*told)));
    *session->order.backlog = *told;
}

void
backlog_add(struct session *session, const struct notification *notification, struct cursor behind)
{
    if (session->order.backlog == NULL)
        set(session, memory_new(sizeof(*session->order.backlog)));
    if (session->order.backlog->waits.count == 0)
        session->order.backlog->behind = behind;
    tally_add(&session->order.backlog->waits, notification->frame.as.notification.id);
}

bool
backlog_is_pending(const struct session *session)
{
    return session->order.backlog != NULL && session->order.backlog->waits.count > 0;
}

void
backlog_query(struct session *session, const struct notification *notification)
{
    tally_add(&session->order.backlog->asked, notification->frame.as.notification.id);
}

/* Of notifications that this session was not sent, some are in the inbox, or were. */
static bool
has_older(const struct session *session)
{
    const struct backlog *backlog = session->order.backlog;

    if (session->inbox.has_unread)
        return true;
    return backlog != NULL && !tally_equal(backlog->waits, backlog->asked);
}

bool
backlog_decide(struct session *session, const struct notification *notification,
               bool is_not_pending)
{
    struct backlog *backlog = session->order.backlog;
    bool is_hidden = !topics_show(session->topics, notification->frame.as.notification.topic);
    bool is_given = is_not_pending && (is_hidden || !has_older(session));

    if (backlog != NULL && !notification->is_retry) {
        tally_remove(&backlog->asked, notification->frame.as.notification.id);
        if (is_given)
            tally_remove(&backlog->waits, notification->frame.as.notification.id);
    }
    return is_given;
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
    tally_remove(&backlog->waits, notification->frame.as.notification.id);
    *cursor_in(&backlog->behind, notification->shard) = entry_id_of_score(notification->score);
    if (backlog->waits.count > 0 || backlog->waits.sum == 0)
        return;
    backlog->waits.sum = 0; /* one of those taken was not counted: another one still waits */
    backlog->is_gone = true;
}

void
backlog_clear(struct session *session)
{
    struct backlog *backlog = session->order.backlog;

    if (backlog == NULL)
        return;
    backlog->waits = backlog->asked;
    backlog->is_gone = false;
    if (backlog->waits.count == 0)
        backlog_free(session);
}

/*
 * Who goes on from before a line finds what waited when that was queued, whatever was taken or went
 * since: the line told it, unless it is itself of what waited.
 */
const struct backlog *
backlog_reported(const struct session *session, struct cursor cursor,
                 const struct notification *overtaken)
{
    static const struct backlog unknown = {.is_gone = true};
    const struct backlog *told = overtaken != NULL ? overtaken->told : session->order.backlog;

    if (overtaken != NULL && overtaken->score != 0 && session->order.backlog != NULL)
        return &unknown;
    if (told == NULL || told->is_gone)
        return told;
    return told->waits.count > 0 && !cursor_reaches(told->behind, cursor) ? told : NULL;
}
