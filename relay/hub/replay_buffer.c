/* replay_buffer.c: the newest notifications, for sessions that are slightly behind. */
#include "hub/replay_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

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
