/* cursors.c: the cursors of a session, and the cursors that it reports to its client. */
#include "hub/cursors.h"

#include "hub/hub_state.h"
#include "hub/session.h"

struct notification *
hub_notification_new(const struct hub *hub, const struct entry *entry, const struct entry_id *heads)
{
    if (hub->config->delivery.hide_targets)
        return notification_new_without_targets(entry, hub->epoch, heads, hub->shards);
    return notification_new(entry, hub->epoch, heads, hub->shards);
}

struct cursor
session_head(const struct session *session)
{
    return replay_buffer_head(&session->hub->replay_buffer, session->client.own_shard);
}

/* All notifications were offered to a live session. */
struct cursor
session_reached(const struct session *session)
{
    return session->state == SESSION_LIVE ? cursor_max(session->cursor, session_head(session))
                                          : session->cursor;
}

struct notification *
session_notification_new(const struct session *session, const struct entry *entry,
                         struct cursor cursor)
{
    struct entry_id heads[STORE_SHARDS_MAX];

    cursor_to_heads(cursor, session->client.own_shard, heads, session->hub->shards);
    return hub_notification_new(session->hub, entry, heads);
}

/* Returns a cursor before this notification, in the deferral that it reports. */
static struct deferral
deferral_before(const struct notification *notification)
{
    struct deferral deferral = *notification->deferral;
    const struct entry_id first =
        entry_id_is_zero(notification->first) ? notification->id : notification->first;
    struct entry_id *from = cursor_in(&deferral.from, notification->shard);

    if (!entry_id_less(*from, first))
        *from = entry_id_before(first);
    return deferral;
}

/*
 * True if a notification with this cursor reports a deferral. If it overtakes another one
 * (`overtaken`, may be NULL), the client needs the overtaken one too when it resumes.
 */
static bool
deferral_reported(const struct session *session, struct cursor cursor,
                  const struct notification *overtaken, struct deferral *ret_deferral)
{
    struct deferral deferral = session->pending.deferral;

    if (overtaken != NULL && overtaken->deferral != NULL)
        deferral = deferral_before(overtaken);
    else if (!session->is_deferred)
        return false;
    /* A held notification is in no list yet. */
    deferral.by_stream = deferral.by_stream || session->pending.held_count > 0;
    *ret_deferral = deferral;
    return !cursor_reaches(deferral.from, cursor);
}

bool
session_reports_deferral(const struct session *session, struct cursor cursor,
                         const struct notification *overtaken)
{
    struct deferral deferral;

    return deferral_reported(session, cursor, overtaken, &deferral);
}

struct notification *
session_notification_at(const struct session *session, struct notification *notification,
                        struct cursor cursor, const struct notification *overtaken)
{
    struct entry_id heads[STORE_SHARDS_MAX];
    struct deferral deferral;
    const bool has_deferral = deferral_reported(session, cursor, overtaken, &deferral);

    cursor_to_heads(cursor, session->client.own_shard, heads, notification->shards);
    return notification_new_at(notification, session->hub->epoch, heads,
                               has_deferral ? &deferral : NULL);
}

void
session_pos_text(const struct session *session, struct cursor cursor, char ret_text[CLIENT_POS_MAX])
{
    struct entry_id heads[STORE_SHARDS_MAX];
    struct deferral deferral;
    const bool has_deferral =
        deferral_reported(session, cursor, outbound_nth(&session->outbound, 0), &deferral);

    cursor_to_heads(cursor, session->client.own_shard, heads, session->hub->shards);
    client_pos_text(session->hub->epoch, heads, session->hub->shards,
                    has_deferral ? &deferral : NULL, ret_text);
}

struct cursor
session_cursor_behind(const struct session *session, const struct notification *notification)
{
    struct cursor cursor = notification_cursor(notification, session->client.own_shard);

    cursor_advance(&cursor, notification->shard,
                   notification->id); /* the notification may report an earlier cursor */
    return cursor;
}

struct cursor
session_before_queue(const struct session *session, struct cursor to)
{
    return outbound_before(&session->outbound, 0, session->client.own_shard, to);
}

_Static_assert(SESSION_POS_MAX == CLIENT_POS_MAX, "gate and hub have the same limit");

bool
session_pos(const struct session *session, char ret_pos[SESSION_POS_MAX])
{
    if (session->state != SESSION_LIVE || !outbound_is_empty(&session->outbound) ||
        session->has_control)
        return false;
    session_pos_text(session, session_reached(session), ret_pos);
    return true;
}
