/* recent.c: the newest notifications, for sessions that are a little behind. */
#include "hub/fanout/recent.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void
recent_open(struct recent *recent, unsigned shards)
{
    recent->shards = shards;
    recent->reached = memory_new(RECENT_NOTES_MAX * shards * sizeof(*recent->reached));
}

static unsigned
slot_of(const struct recent *recent, unsigned cursor)
{
    return (recent->first + cursor) % RECENT_NOTES_MAX;
}

static void
drop_oldest(struct recent *recent)
{
    struct note *oldest = recent->notes[recent->first];

    recent->base[oldest->shard] = oldest->id;
    recent->bytes -= oldest->line_len;
    recent->first = slot_of(recent, 1);
    recent->count--;
    note_unref(oldest);
}

static void
empty(struct recent *recent)
{
    while (recent->count > 0)
        drop_oldest(recent);
}

void
recent_close(struct recent *recent)
{
    empty(recent);
    free(recent->reached);
    recent->reached = NULL;
}

void
recent_reset(struct recent *recent, const struct entry_id *head)
{
    empty(recent);
    memcpy(recent->base, head, recent->shards * sizeof(*head));
    memcpy(recent->head, head, recent->shards * sizeof(*head));
}

void
recent_add(struct recent *recent, struct note *note)
{
    unsigned slot;

    while (recent->count > 0 &&
           (recent->count == RECENT_NOTES_MAX || recent->bytes + note->line_len > RECENT_BYTES_MAX))
        drop_oldest(recent);
    slot = slot_of(recent, recent->count++);
    recent->notes[slot] = note_ref(note);
    recent->bytes += note->line_len;
    recent->head[note->shard] = note->id;
    memcpy(recent->reached + slot * recent->shards, recent->head,
           recent->shards * sizeof(*recent->head));
}

struct cursor
recent_base(const struct recent *recent, unsigned own)
{
    return cursor_from_heads(recent->base, own);
}

struct cursor
recent_head(const struct recent *recent, unsigned own)
{
    return cursor_from_heads(recent->head, own);
}

bool
recent_goes_on(const struct recent *recent, unsigned own, struct cursor after)
{
    return cursor_reaches(after, recent_base(recent, own));
}

bool
recent_covers(const struct recent *recent, unsigned own, struct cursor after)
{
    return recent_goes_on(recent, own, after) && cursor_reaches(recent_head(recent, own), after);
}

/* What was read with a note is never less than with the one before. */
struct note *
recent_next(const struct recent *recent, unsigned own, struct cursor after)
{
    unsigned low = 0;
    unsigned high = recent->count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        const struct entry_id *reached = recent->reached + slot_of(recent, middle) * recent->shards;

        if (cursor_reaches(after, cursor_from_heads(reached, own)))
            low = middle + 1;
        else
            high = middle;
    }
    return low < recent->count ? recent->notes[slot_of(recent, low)] : NULL;
}
