/* cursors.c: the cursors of a session, and the cursors that it reports to its client. */
#include "hub/session/cursors.h"

#include "hub/session/backlog.h"
#include "hub/session/hub_state.h"
#include "hub/session/session.h"

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

struct notification *
session_notification_at(const struct session *session, struct notification *notification,
                        struct cursor cursor, const struct notification *overtaken)
{
    struct entry_id heads[STORE_SHARDS_MAX];

    cursor_to_heads(cursor, session->client.own_shard, heads, notification->shards);
    return notification_new_at(notification, session->hub->epoch, heads,
                               backlog_reported(session, cursor, overtaken));
}

void
session_pos_text(const struct session *session, struct cursor cursor, char ret_text[CLIENT_POS_MAX])
{
    struct entry_id heads[STORE_SHARDS_MAX];

    cursor_to_heads(cursor, session->client.own_shard, heads, session->hub->shards);
    client_pos_text(session->hub->epoch, heads, session->hub->shards,
                    backlog_reported(session, cursor, outbound_nth(&session->outbound, 0)),
                    ret_text);
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
