/* outbound.c: the notifications that wait for one session's socket. */
#include "hub/session/outbound.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define FIRST_ROOM 8

_Static_assert(2 * (OUTBOUND_MAX + RUN_NOTES_MAX) <= UINT16_MAX, "rooms fit their type");

static struct note **
slot_of(const struct outbound *outbound, unsigned nth)
{
    return &outbound->notes[(outbound->first + nth) & (outbound->room - 1u)];
}

struct note *
outbound_nth(const struct outbound *outbound, unsigned nth)
{
    return nth < outbound->count ? *slot_of(outbound, nth) : NULL;
}

unsigned
outbound_notes(const struct outbound *outbound)
{
    return outbound->count + (outbound->run != NULL ? outbound->run->count : 0);
}

size_t
outbound_bytes(const struct outbound *outbound)
{
    return outbound->bytes + (outbound->run != NULL ? outbound->run->len : 0);
}

unsigned
outbound_position(const struct outbound *outbound, uint8_t priority)
{
    unsigned nth = outbound->count;

    while (nth > 0 && (*slot_of(outbound, nth - 1))->frame.as.note.priority > priority)
        nth--;
    return nth;
}

static void
make_room(struct outbound *outbound)
{
    unsigned room = outbound->room == 0 ? FIRST_ROOM : outbound->room * 2u;
    struct note **notes;

    if (outbound->count < outbound->room)
        return;
    if (outbound->count >= OUTBOUND_MAX + RUN_NOTES_MAX)
        abort(); /* callers look first: rather no process than a broken one */
    notes = memory_grow(NULL, room * sizeof(struct note *));
    for (unsigned i = 0; i < outbound->count; i++)
        notes[i] = *slot_of(outbound, i);
    free(outbound->notes);
    outbound->notes = notes;
    outbound->room = (uint16_t)room;
    outbound->first = 0;
}

static void
free_room(struct outbound *outbound)
{
    free(outbound->notes);
    outbound->notes = NULL;
    outbound->room = 0;
    outbound->first = 0;
}

static void
count_in(struct note *note, size_t *queued_bytes)
{
    if (note->queues++ == 0)
        *queued_bytes += sizeof(*note) + note->line_len;
}

static void
count_out(struct note *note, size_t *queued_bytes)
{
    if (--note->queues == 0)
        *queued_bytes -= sizeof(*note) + note->line_len;
}

void
outbound_insert(struct outbound *outbound, unsigned nth, struct note *note, size_t *queued_bytes)
{
    make_room(outbound);
    if (outbound->count == 0)
        outbound->since_us = clock_monotonic_us();
    for (unsigned i = outbound->count; i > nth; i--)
        *slot_of(outbound, i) = *slot_of(outbound, i - 1);
    *slot_of(outbound, nth) = note;
    outbound->count++;
    outbound->bytes += note->line_len;
    count_in(note, queued_bytes);
}

struct note *
outbound_take(struct outbound *outbound, size_t *queued_bytes)
{
    struct note *note = *slot_of(outbound, 0);

    outbound->first = (uint16_t)((outbound->first + 1u) & (outbound->room - 1u));
    outbound->count--;
    outbound->bytes -= note->line_len;
    count_out(note, queued_bytes);
    if (outbound->count == 0)
        free_room(outbound);
    return note;
}

struct run *
outbound_take_run(struct outbound *outbound)
{
    struct run *run = outbound->run;

    outbound->run = NULL;
    return run;
}

void
outbound_clear(struct outbound *outbound, size_t *queued_bytes)
{
    run_unref(outbound_take_run(outbound));
    while (outbound->count > 0)
        note_unref(outbound_take(outbound, queued_bytes));
}

/* The cursor before that notification, from which it and all that follow it are sent again. */
static struct cursor
cursor_before(const struct note *note, unsigned own)
{
    struct cursor cursor = note_told(note, own);
    struct entry_id *at = cursor_in(&cursor, note->shard);

    if (!entry_id_equal(*at, note->id))
        return cursor; /* an earlier one already */
    *at = entry_id_before(*at);
    return cursor;
}

struct cursor
outbound_before(const struct outbound *outbound, unsigned nth, unsigned own, struct cursor cursor)
{
    for (unsigned i = 0; outbound->run != NULL && i < outbound->run->count; i++)
        cursor = cursor_min(cursor, cursor_before(outbound->run->notes[i], own));
    for (unsigned i = nth; i < outbound->count; i++)
        cursor = cursor_min(cursor, cursor_before(*slot_of(outbound, i), own));
    return cursor;
}
