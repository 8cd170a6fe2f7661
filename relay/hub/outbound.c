/* outbound.c: the notifications queued for one session's socket. */
#include "hub/outbound.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define OUTBOUND_FIRST_ROOM 8

_Static_assert(2 * (OUTBOUND_MAX + BATCH_COUNT_MAX) <= UINT16_MAX, "capacities fit their type");

static struct notification **
slot_of(const struct outbound *outbound, unsigned nth)
{
    return &outbound->notifications[(outbound->first + nth) & (outbound->room - 1u)];
}

struct notification *
outbound_nth(const struct outbound *outbound, unsigned nth)
{
    return nth < outbound->count ? *slot_of(outbound, nth) : NULL;
}

unsigned
outbound_count(const struct outbound *outbound)
{
    return outbound->count + (outbound->batch != NULL ? outbound->batch->count : 0);
}

size_t
outbound_bytes(const struct outbound *outbound)
{
    return outbound->bytes + (outbound->batch != NULL ? outbound->batch->len : 0);
}

unsigned
outbound_index_for(const struct outbound *outbound, uint8_t priority)
{
    unsigned nth = outbound->count;

    while (nth > 0 && (*slot_of(outbound, nth - 1))->frame.as.notification.priority > priority)
        nth--;
    return nth;
}

static void
outbound_grow(struct outbound *outbound)
{
    unsigned room = outbound->room == 0 ? OUTBOUND_FIRST_ROOM : outbound->room * 2u;
    struct notification **notifications;

    if (outbound->count < outbound->room)
        return;
    if (outbound->count >= OUTBOUND_MAX + BATCH_COUNT_MAX)
        abort(); /* callers check this first */
    notifications = memory_grow(NULL, room * sizeof(struct notification *));
    for (unsigned i = 0; i < outbound->count; i++)
        notifications[i] = *slot_of(outbound, i);
    free(outbound->notifications);
    outbound->notifications = notifications;
    outbound->room = (uint16_t)room;
    outbound->first = 0;
}

static void
free_room(struct outbound *outbound)
{
    free(outbound->notifications);
    outbound->notifications = NULL;
    outbound->room = 0;
    outbound->first = 0;
}

static void
count_in(struct notification *notification, size_t *queued_bytes)
{
    shared_wait(&notification->shared, queued_bytes);
    if (notification->source != NULL)
        shared_wait(&notification->source->shared, queued_bytes);
}

static void
count_out(struct notification *notification, size_t *queued_bytes)
{
    shared_wait_end(&notification->shared, queued_bytes);
    if (notification->source != NULL)
        shared_wait_end(&notification->source->shared, queued_bytes);
}

void
outbound_insert(struct outbound *outbound, unsigned nth, struct notification *notification,
                size_t *queued_bytes)
{
    outbound_grow(outbound);
    if (outbound->count == 0)
        outbound->since_us = clock_monotonic_us();
    for (unsigned i = outbound->count; i > nth; i--)
        *slot_of(outbound, i) = *slot_of(outbound, i - 1);
    *slot_of(outbound, nth) = notification;
    outbound->count++;
    outbound->bytes += notification->text_len;
    count_in(notification, queued_bytes);
}

struct notification *
outbound_dequeue(struct outbound *outbound, size_t *queued_bytes)
{
    struct notification *notification = *slot_of(outbound, 0);

    outbound->first = (uint16_t)((outbound->first + 1u) & (outbound->room - 1u));
    outbound->count--;
    outbound->bytes -= notification->text_len;
    count_out(notification, queued_bytes);
    if (outbound->count == 0)
        free_room(outbound);
    return notification;
}

struct fanout_batch *
outbound_dequeue_batch(struct outbound *outbound)
{
    struct fanout_batch *batch = outbound->batch;

    outbound->batch = NULL;
    return batch;
}

void
outbound_clear(struct outbound *outbound, size_t *queued_bytes)
{
    fanout_batch_unref(outbound_dequeue_batch(outbound));
    while (outbound->count > 0)
        notification_unref(outbound_dequeue(outbound, queued_bytes));
}

/* Returns the cursor from which this and all later notifications are sent again. */
static struct cursor
cursor_before(const struct notification *notification, unsigned own)
{
    struct cursor cursor = notification_cursor(notification, own);
    struct entry_id *at = cursor_in(&cursor, notification->shard);

    if (!entry_id_equal(*at, notification->id))
        return cursor; /* the notification reports an earlier cursor */
    *at = entry_id_before(*at);
    return cursor;
}

struct cursor
outbound_before(const struct outbound *outbound, unsigned nth, unsigned own, struct cursor cursor)
{
    for (unsigned i = 0; outbound->batch != NULL && i < outbound->batch->count; i++)
        cursor = cursor_min(cursor, cursor_before(outbound->batch->notifications[i], own));
    for (unsigned i = nth; i < outbound->count; i++)
        cursor = cursor_min(cursor, cursor_before(*slot_of(outbound, i), own));
    return cursor;
}
