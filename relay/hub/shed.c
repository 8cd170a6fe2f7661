/* shed.c: selects the notifications to drop under load, and the cursors to report meanwhile. */
#include "hub/shed.h"

#include "hub/hub_state.h"

#define LIMIT_MIN (64u * 1024 * 1024) /* a few large notifications */

/* Only REALTIME notifications that need no ack may be dropped. */
static bool
may_be_shed(const struct notification *notification, enum pressure_level level)
{
    const struct frame_notification *frame = &notification->frame.as.notification;

    if (notification->needs_ack || frame->type != FRAME_TYPE_REALTIME)
        return false;
    return frame->priority == FRAME_PRIORITY_LOW ||
           (level == PRESSURE_NORMAL && frame->priority == FRAME_PRIORITY_NORMAL);
}

bool
shed_drops(const struct hub *hub, const struct notification *notification)
{
    return hub->shed.pressure.level != PRESSURE_NONE &&
           may_be_shed(notification, hub->shed.pressure.level) &&
           entry_id_less(hub->shed.hold[notification->shard], notification->id);
}

unsigned
shed_count_kept(const struct hub *hub, struct notification *const *notifications, unsigned count)
{
    unsigned kept = 0;

    if (hub->shed.pressure.level == PRESSURE_NONE)
        return count;
    while (kept < count && !shed_drops(hub, notifications[kept]))
        kept++;
    return kept;
}

struct cursor
shed_cursor(const struct session *session, struct cursor cursor)
{
    const struct shed *shed = &session->hub->shed;

    if (shed->pressure.level == PRESSURE_NONE)
        return cursor;
    return cursor_min(cursor, cursor_from_heads(shed->hold, session->client.own_shard));
}

const struct entry_id *
shed_reported_heads(const struct hub *hub)
{
    return hub->shed.pressure.level == PRESSURE_NONE ? hub->newest : hub->shed.hold;
}

bool
hub_is_over_limit(const struct hub *hub)
{
    const size_t shed_bytes = (size_t)hub->config->delivery.shed_bytes;

    return shed_bytes > 0 && hub->queued_bytes > 2 * shed_bytes && hub->queued_bytes > LIMIT_MIN;
}

void
session_count_shed(struct session *session, const struct notification *notification)
{
    struct hub *hub = session->hub;
    bool is_low = notification->frame.as.notification.priority == FRAME_PRIORITY_LOW;

    session->control.has_dropped = true;
    hub->shed.count++;
    stats_add(hub->stats, is_low ? STAT_HUB_SHED_LOW : STAT_HUB_SHED_NORMAL, 1);
}
