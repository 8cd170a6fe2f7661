/* report_queue.c: queues delivery reports for the store. */
#include "hub/report_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hub/hub_state.h"
#include "hub/ready_list.h"
#include "hub/rejections.h"

#define REPORTS_MAX 262144

static void
push(struct hub *hub, struct delivery_report item)
{
    if (hub->reports.count == hub->reports.room) {
        hub->reports.room = hub->reports.room == 0 ? 64 : hub->reports.room * 2;
        hub->reports.items =
            memory_grow(hub->reports.items, hub->reports.room * sizeof(*hub->reports.items));
    }
    hub->reports.items[hub->reports.count++] = item;
}

static bool
has_room(const struct session *session)
{
    if (session->hub->reports.count < REPORTS_MAX)
        return true;
    /* The notification remains pending, and is sent when the user reconnects. */
    rejections_add(&session->hub->reports_rejected, session->client.user,
                   "delivery report queue is full: reports dropped");
    return false;
}

static void
add(struct session *session, struct delivery_report item)
{
    struct hub *hub = session->hub;

    item.user = memory_text(session->client.user, strlen(session->client.user));
    push(hub, item);
    if (hub->reports.call_count == 0 || hub->reports.count >= REPORTS_PER_CALL)
        hub_mark(hub, HUB_FLUSH);
}

static struct delivery_report
item_of(const struct notification *notification)
{
    struct delivery_report item = {
        .shard = notification->shard,
        .backoff = notification->frame.as.notification.backoff,
        .ack_timeout_ms = notification->frame.as.notification.ack_timeout_ms,
        .retry_enabled = (notification->frame.flags & FRAME_RETRY_ENABLED) != 0,
        .is_open_ended = notification->is_open_ended,
    };

    memcpy(item.id, notification->frame.as.notification.id, sizeof(item.id));
    return item;
}

void
delivery_report_add(struct session *session, const struct notification *notification)
{
    if (has_room(session))
        add(session, item_of(notification));
}

void
delivery_report_renew(struct session *session, const struct inflight_entry *entry)
{
    struct delivery_report item = {
        .shard = entry->shard,
        .backoff = entry->backoff,
        .ack_timeout_ms = entry->ack_timeout_ms,
        .retry_enabled = entry->retry_enabled,
        .is_open_ended = entry->is_open_ended,
        .is_renewal = true,
    };

    memcpy(item.id, entry->id, sizeof(item.id));
    if (has_room(session))
        add(session, item);
}

bool
delivery_report_defer(struct session *session, struct notification *notification)
{
    struct delivery_report item = item_of(notification);

    if (!has_room(session))
        return false;
    session->requests.count++;
    session->pending.held_count++;
    session->pending.held_bytes += notification->text_len;
    item.deferred = session;
    item.notification = notification_ref(notification);
    add(session, item);
    return true;
}
