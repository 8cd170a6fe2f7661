/* shed.c: which notifications load shedding drops, and the positions reported meanwhile. */
#include "hub/session/shed.h"

#include "hub/session/hub_state.h"

/* What waits for an ack, and what is more than a picture of the moment, is never left out. */
static bool
may_be_shed(const struct note *note, enum pressure_level level)
{
    const struct frame_note *frame = &note->frame.as.note;

    if (note->needs_ack || frame->type != FRAME_TYPE_REALTIME)
        return false;
    return frame->priority == FRAME_PRIORITY_LOW ||
           (level == PRESSURE_NORMAL && frame->priority == FRAME_PRIORITY_NORMAL);
}

bool
shed_takes(const struct hub *hub, const struct note *note)
{
    return hub->shed.pressure.level != PRESSURE_NONE &&
           may_be_shed(note, hub->shed.pressure.level) &&
           entry_id_less(hub->shed.hold[note->shard], note->id);
}

unsigned
shed_keeps(const struct hub *hub, struct note *const *notes, unsigned count)
{
    unsigned kept = 0;

    if (hub->shed.pressure.level == PRESSURE_NONE)
        return count;
    while (kept < count && !shed_takes(hub, notes[kept]))
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
shed_heads(const struct hub *hub)
{
    return hub->shed.pressure.level == PRESSURE_NONE ? hub->newest : hub->shed.hold;
}

void
session_shed(struct session *session, const struct note *note)
{
    struct hub *hub = session->hub;
    bool is_low = note->frame.as.note.priority == FRAME_PRIORITY_LOW;

    session->control.has_shed = true;
    hub->shed.count++;
    stats_add(hub->stats, is_low ? STAT_HUB_SHED_LOW : STAT_HUB_SHED_NORMAL, 1);
}
