/* queue.c: adds notifications and batches to a session's outbound queue. */
#include "hub/queue.h"

#include "hub/hub_state.h"
#include "hub/cursors.h"
#include "hub/ready_list.h"
#include "hub/row_order.h"

bool
session_queue_is_empty(const struct session *session)
{
    return outbound_is_empty(&session->outbound);
}

const struct notification *
session_next_queued(const struct session *session)
{
    return outbound_nth(&session->outbound, 0);
}

bool
session_is_full(const struct session *session)
{
    size_t max = (size_t)session->hub->config->gate.slow_bytes;
    size_t bytes = outbound_bytes(&session->outbound) + session->pending.held_bytes;

    return outbound_count(&session->outbound) + session->pending.held_count >= OUTBOUND_MAX ||
           bytes >= (max < SESSION_QUEUE_BYTES ? max : SESSION_QUEUE_BYTES);
}

/*
 * A notification that overtakes others must report a cursor before their cursors; otherwise a
 * client that resumes would lose them. It also reports a deferral. NULL: no copy is needed.
 */
static struct notification *
own_copy(const struct session *session, struct notification *notification, unsigned nth)
{
    const struct notification *overtaken = outbound_nth(&session->outbound, nth);
    const struct cursor reported = notification_cursor(notification, session->client.own_shard);
    const struct cursor cursor =
        outbound_before(&session->outbound, nth, session->client.own_shard, reported);

    if (cursor_equal(cursor, reported) && !session_reports_deferral(session, cursor, overtaken))
        return NULL;
    return session_notification_at(session, notification, cursor, overtaken);
}

/* Takes ownership of the reference. */
static void
insert(struct session *session, struct notification *notification)
{
    struct outbound *outbound = &session->outbound;
    /* A poll resumes from its last cursor, so it receives notifications in stream order. */
    unsigned nth = session->is_poll
                       ? outbound->count
                       : outbound_index_for(outbound, notification->frame.as.notification.priority);
    struct notification *copy = own_copy(session, notification, nth);

    outbound_insert(outbound, nth, copy != NULL ? copy : notification, &session->hub->queued_bytes);
    if (copy != NULL)
        notification_unref(notification);
}

void
session_split_batch(struct session *session, size_t sent)
{
    struct fanout_batch *batch = outbound_dequeue_batch(&session->outbound);

    for (unsigned i = 0; batch != NULL && i < batch->count; i++) {
        if (sent >= batch->notifications[i]->ws_len) {
            sent -= batch->notifications[i]->ws_len;
            stats_add(session->hub->stats, STAT_HUB_DELIVERED, 1);
        } else {
            insert(session, notification_ref(batch->notifications[i]));
        }
    }
    fanout_batch_unref(batch);
}

void
session_queue(struct session *session, struct notification *notification)
{
    session_split_batch(session, 0);
    insert(session, row_order_pass(session, notification));
    session_mark(session, READY_SEND);
}

/* The previous batch was not sent yet: merges both. */
static bool
merge_batch(struct hub *hub, struct session *session, const struct fanout_batch *batch)
{
    struct fanout_batch *whole = merged_batch_of(&hub->merged, session->outbound.batch, batch);

    if (whole == NULL)
        return false;
    fanout_batch_unref(session->outbound.batch);
    session->outbound.batch = fanout_batch_ref(whole);
    return true;
}

bool
session_queue_batch(struct hub *hub, struct session *session, struct fanout_batch *batch)
{
    if (session->is_blocked || session->is_deferred || session->has_control || session->is_poll)
        return false;
    if (session->outbound.batch != NULL)
        return merge_batch(hub, session, batch);
    if (!session_queue_is_empty(session))
        return false;
    session->outbound.batch = fanout_batch_ref(batch);
    ready_list_send(hub, session);
    return true;
}

void
session_clear_queue(struct session *session)
{
    outbound_clear(&session->outbound, &session->hub->queued_bytes);
}
