/* row_order.c: the newest notification per topic that was sent to a session. */
#include "hub/row_order.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "hub/hub_state.h"

#define ROW_ORDER_FIRST_ROOM 2
#define ROOM_MAX 64 /* maximum topics of a session; older topics are merged */

/* Keyed by hash: topics with the same hash are merged, so that more than necessary are marked. */
struct topic_newest {
    uint64_t topic;
    struct position newest;
};

struct row_order {
    unsigned count;
    unsigned room;
    struct position others; /* highest position of merged topics */
    struct topic_newest topics[];
};

/* FNV-1a. */
static uint64_t
hash_of(struct bytes topic)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < topic.len; i++)
        hash = (hash ^ topic.at[i]) * UINT64_C(1099511628211);
    return hash;
}

static struct row_order *
row_order_grow(struct row_order *rows)
{
    unsigned room = rows == NULL ? ROW_ORDER_FIRST_ROOM : rows->room * 2;
    bool is_new = rows == NULL;

    if (!is_new && (rows->count < rows->room || rows->room == ROOM_MAX))
        return rows;
    rows = memory_grow(rows, sizeof(*rows) + room * sizeof(*rows->topics));
    if (is_new)
        *rows = (struct row_order){.count = 0};
    rows->room = room;
    return rows;
}

/* Its slot is reused for another topic. */
static struct topic_newest *
evict_oldest(struct row_order *rows)
{
    struct topic_newest *oldest = &rows->topics[0];

    for (unsigned i = 1; i < rows->count; i++) {
        if (position_less(rows->topics[i].newest, oldest->newest))
            oldest = &rows->topics[i];
    }
    position_raise(&rows->others, oldest->newest);
    return oldest;
}

static struct topic_newest *
find(struct session *session, struct bytes topic)
{
    uint64_t hash = hash_of(topic);
    struct row_order *rows = session->rows;
    struct topic_newest *found;

    for (unsigned i = 0; rows != NULL && i < rows->count; i++) {
        if (rows->topics[i].topic == hash)
            return &rows->topics[i];
    }
    session->rows = rows = row_order_grow(rows);
    found = rows->count < rows->room ? &rows->topics[rows->count++] : evict_oldest(rows);
    *found = (struct topic_newest){hash, rows->others};
    return found;
}

struct notification *
row_order_pass(struct session *session, struct notification *notification)
{
    const struct frame *frame = &notification->frame;
    const struct position position = {frame->commit_lsn, frame->ordinal};
    struct topic_newest *topic;
    struct notification *late;

    if (!notification->needs_ack || frame->as.notification.operation == FRAME_OPERATION_NOTIFY)
        return notification_ref(notification);
    topic = find(session, frame->as.notification.topic);
    if (frame->as.notification.attempts > 0 || !position_less(position, topic->newest)) {
        position_raise(&topic->newest, position);
        return notification_ref(notification);
    }
    late = notification_new_late(notification, session->hub->epoch);
    if (late != NULL)
        return late;
    log_error("hub", "could not mark a late notification as a retry: unknown format",
              LOG_SESSION(session));
    return notification_ref(notification);
}

void
row_order_free(struct session *session)
{
    free(session->rows);
    session->rows = NULL;
}
