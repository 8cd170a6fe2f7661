/*
 * replay_buffer.c: the newest notifications in memory, for sessions that are slightly behind; and
 * how the buffer is filled from the store at the start of a relay.
 */
#include "hub/replay_buffer.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"
#include "hub/hub_private.h"

#define BACKFILL_PAGE 256

void
replay_buffer_open(struct replay_buffer *buffer, unsigned shards)
{
    buffer->shards = shards;
    buffer->reached = memory_new(REPLAY_BUFFER_COUNT_MAX * shards * sizeof(*buffer->reached));
}

static unsigned
slot_of(const struct replay_buffer *buffer, unsigned cursor)
{
    return (buffer->first + cursor) % REPLAY_BUFFER_COUNT_MAX;
}

static void
drop_oldest(struct replay_buffer *buffer)
{
    struct notification *oldest = buffer->notifications[buffer->first];

    /* otherwise see replay_buffer_begin */
    if (entry_id_less(buffer->base[oldest->shard], oldest->id))
        buffer->base[oldest->shard] = oldest->id;
    buffer->bytes -= oldest->text_len;
    buffer->first = slot_of(buffer, 1);
    buffer->count--;
    notification_unref(oldest);
}

static void
empty(struct replay_buffer *buffer)
{
    while (buffer->count > 0)
        drop_oldest(buffer);
}

void
replay_buffer_close(struct replay_buffer *buffer)
{
    empty(buffer);
    free(buffer->reached);
    buffer->reached = NULL;
}

void
replay_buffer_reset(struct replay_buffer *buffer, const struct entry_id *head)
{
    empty(buffer);
    memcpy(buffer->base, head, buffer->shards * sizeof(*head));
    memcpy(buffer->head, head, buffer->shards * sizeof(*head));
    memset(buffer->begin, 0, sizeof(buffer->begin));
}

/* The buffer may contain earlier notifications of the shard: all cursors are past them. */
void
replay_buffer_begin(struct replay_buffer *buffer, unsigned shard, struct entry_id newest)
{
    buffer->base[shard] = buffer->head[shard] = newest;
    buffer->begin[shard] = buffer->head[0];
}

void
replay_buffer_add(struct replay_buffer *buffer, struct notification *notification)
{
    unsigned slot;

    while (buffer->count > 0 && (buffer->count == REPLAY_BUFFER_COUNT_MAX ||
                                 buffer->bytes + notification->text_len > REPLAY_BUFFER_BYTES_MAX))
        drop_oldest(buffer);
    slot = slot_of(buffer, buffer->count++);
    buffer->notifications[slot] = notification_ref(notification);
    buffer->bytes += notification->text_len;
    buffer->head[notification->shard] = notification->id;
    memcpy(buffer->reached + slot * buffer->shards, buffer->head,
           buffer->shards * sizeof(*buffer->head));
}

bool
replay_buffer_prepend(struct replay_buffer *buffer, struct notification *notification)
{
    if (buffer->count == REPLAY_BUFFER_COUNT_MAX ||
        buffer->bytes + notification->text_len > REPLAY_BUFFER_BYTES_MAX)
        return false;
    buffer->first = slot_of(buffer, REPLAY_BUFFER_COUNT_MAX - 1);
    buffer->count++;
    buffer->bytes += notification->text_len;
    buffer->notifications[buffer->first] = notification_ref(notification);
    buffer->reached[buffer->first] = notification->id;
    buffer->base[0] = entry_id_before(notification->id);
    return true;
}

struct cursor
replay_buffer_base(const struct replay_buffer *buffer, unsigned own)
{
    return cursor_max(cursor_from_heads(buffer->base, own),
                      (struct cursor){.shared = buffer->begin[own]});
}

struct cursor
replay_buffer_head(const struct replay_buffer *buffer, unsigned own)
{
    return cursor_from_heads(buffer->head, own);
}

bool
replay_buffer_follows(const struct replay_buffer *buffer, unsigned own, struct cursor after)
{
    return cursor_reaches(after, replay_buffer_base(buffer, own));
}

bool
replay_buffer_covers(const struct replay_buffer *buffer, unsigned own, struct cursor after)
{
    return replay_buffer_follows(buffer, own, after) &&
           cursor_reaches(replay_buffer_head(buffer, own), after);
}

/* Binary search: `reached` never decreases from one notification to the next. */
struct notification *
replay_buffer_next(const struct replay_buffer *buffer, unsigned own, struct cursor after)
{
    unsigned low = 0;
    unsigned high = buffer->count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        const struct entry_id *reached = buffer->reached + slot_of(buffer, middle) * buffer->shards;

        if (cursor_reaches(after, cursor_from_heads(reached, own)))
            low = middle + 1;
        else
            high = middle;
    }
    return low < buffer->count ? buffer->notifications[slot_of(buffer, low)] : NULL;
}

/*
 * ---- the start of a relay
 *
 * Its clients reconnect together, and most have missed the same notifications, which are then read
 * from the store once.
 */

static void backfill_request(struct hub *hub);

/* The sessions that waited read from the buffer what it has, and the rest from the store. */
static void
backfill_finish(struct hub *hub)
{
    struct session *session;

    hub->backfill.state = BACKFILL_DONE;
    DL_FOREACH (hub->sessions, session)
        session_mark(session, READY_ADVANCE);
}

static void
on_earlier(void *ctx, enum rc rc, const struct store_page *page)
{
    struct hub *hub = ctx;
    struct replay_buffer *buffer = &hub->replay_buffer;
    /* Otherwise it was emptied, or was full and has dropped its oldest notification. */
    bool has_room = entry_id_equal(buffer->base[0], hub->backfill.base);

    for (size_t i = 0; rc == RC_OK && i < page->count && has_room; i++) {
        const struct entry *entry = &page->entries[i];
        struct notification *notification = hub_notification_new(hub, entry, &entry->id);

        has_room = replay_buffer_prepend(buffer, notification);
        notification_unref(notification);
    }
    if (rc == RC_OK && page->count > 0 && page->has_more && has_room)
        backfill_request(hub);
    else
        backfill_finish(hub);
}

static void
backfill_request(struct hub *hub)
{
    hub->backfill = (struct backfill){BACKFILL_READING, hub->replay_buffer.base[0]};
    if (store_earlier(hub->store, hub->backfill.base, BACKFILL_PAGE, on_earlier, hub) != RC_OK)
        backfill_finish(hub);
}

void
backfill_start(struct hub *hub)
{
    /* With several shards the order of earlier notifications depends on all of them. */
    if (hub->backfill.state == BACKFILL_WAITING && hub->has_head && hub->shards == 1 &&
        store_is_read(hub->store, 0))
        backfill_request(hub);
}
