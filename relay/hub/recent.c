/* recent.c: the newest notifications, for sessions that are a little behind. */
#include "hub/recent.h"

static struct note *
note_at(const struct recent *recent, unsigned place)
{
    return recent->notes[(recent->first + place) % RECENT_NOTES_MAX];
}

static void
drop_oldest(struct recent *recent)
{
    struct note *oldest = note_at(recent, 0);

    recent->base = oldest->id;
    recent->bytes -= oldest->line_len;
    recent->first = (recent->first + 1) % RECENT_NOTES_MAX;
    recent->count--;
    note_unref(oldest);
}

void
recent_reset(struct recent *recent, struct entry_id head)
{
    while (recent->count > 0)
        drop_oldest(recent);
    recent->base = head;
    recent->head = head;
}

void
recent_add(struct recent *recent, struct note *note)
{
    while (recent->count > 0 &&
           (recent->count == RECENT_NOTES_MAX || recent->bytes + note->line_len > RECENT_BYTES_MAX))
        drop_oldest(recent);
    recent->notes[(recent->first + recent->count) % RECENT_NOTES_MAX] = note_ref(note);
    recent->count++;
    recent->bytes += note->line_len;
    recent->head = note->id;
}

bool
recent_covers(const struct recent *recent, struct entry_id after)
{
    return !entry_id_less(after, recent->base) && !entry_id_less(recent->head, after);
}

struct note *
recent_next(const struct recent *recent, struct entry_id after)
{
    unsigned low = 0;
    unsigned high = recent->count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (entry_id_less(after, note_at(recent, middle)->id))
            high = middle;
        else
            low = middle + 1;
    }
    return low < recent->count ? note_at(recent, low) : NULL;
}
