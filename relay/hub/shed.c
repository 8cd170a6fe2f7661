/*
 * shed.c: what is left out while this process is short of CPU or memory, and how clients are told.
 */
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "hub/hub_private.h"

#define TELL_US (30 * 1000000) /* a client is told so long after the first loss at the latest */

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

/* How long lines wait for their turn. */

void
shed_waits(struct hub *hub, const struct session *session)
{
    hub->shed.probe = session;
    hub->shed.probe_us = clock_monotonic_us();
}

static void
note_lag(struct shed *shed, int64_t lag_us)
{
    if (lag_us > shed->lag_us)
        shed->lag_us = lag_us;
}

void
shed_had_turn(struct hub *hub)
{
    note_lag(&hub->shed, clock_monotonic_us() - hub->shed.probe_us);
    hub->shed.probe = NULL;
}

/* A stretch: from the first loss until clients are told. */

static void
begin_stretch(struct hub *hub, int64_t now_us)
{
    memcpy(hub->shed.hold, hub->newest, sizeof(hub->newest));
    hub->shed.began_us = now_us;
    hub->shed.count = 0;
}

static void
end_stretch(struct hub *hub)
{
    struct session *session, *next;
    uint64_t clients = 0;

    DL_FOREACH_SAFE (hub->sessions, session, next) {
        if (!session->control.has_shed)
            continue;
        session->control.has_shed = false;
        session_gap(session, cursor_from_heads(hub->shed.hold, session->client.own_shard),
                    session_reached(session), "shed");
        clients++;
    }
    log_warnf("hub", "%llu lines were left out, %llu clients are told of the gap",
              (unsigned long long)hub->shed.count, (unsigned long long)clients);
}

static void
take_level(struct hub *hub, enum pressure_level before, int64_t now_us)
{
    static const char *const taken[] = {"nothing", "LOW ones", "LOW and NORMAL ones"};
    const struct shed *shed = &hub->shed;
    enum pressure_level level = shed->pressure.level;

    stats_set(hub->stats, STAT_HUB_SHEDDING, level);
    log_warnf(
        "hub",
        "%s: lines wait %lld ms for their turn, %zu kB wait for sockets; of the lines of type "
        "REALTIME that need no ack, %s are left out",
        level > before ? "short of CPU or memory" : "less short",
        (long long)(shed->pressure.lag_us / 1000), hub->queued_bytes / 1024, taken[level]);
    if (before == PRESSURE_NONE)
        begin_stretch(hub, now_us);
    else if (level == PRESSURE_NONE)
        end_stretch(hub);
}

static void
on_measure(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;
    struct shed *shed = &hub->shed;
    const struct pressure_limits limits = {
        .lag_us = hub->config->delivery.shed_lag_ms * 1000,
        .bytes = (size_t)hub->config->delivery.shed_bytes,
    };
    enum pressure_level before = shed->pressure.level;
    int64_t now_us = clock_monotonic_us();

    (void)events;
    ev_timer_again(loop, timer); /* late, it would come twice, and the second time see no lag */
    if (shed->probe != NULL)
        note_lag(shed, now_us - shed->probe_us);
    note_lag(shed, now_us - shed->measured_us - PRESSURE_EVERY_MS * 1000); /* a long turn */
    hub_publish(hub); /* what was read is judged as it came */
    if (pressure_measure(&shed->pressure, &limits, now_us, shed->lag_us, hub->queued_bytes)) {
        take_level(hub, before, now_us);
    } else if (before != PRESSURE_NONE && now_us - shed->began_us >= TELL_US) {
        end_stretch(hub);
        begin_stretch(hub, now_us);
    }
    shed->measured_us = now_us;
    shed->lag_us = 0;
    stats_set(hub->stats, STAT_HUB_LAG, (uint64_t)shed->pressure.lag_us);
    stats_set(hub->stats, STAT_HUB_QUEUED, hub->queued_bytes);
}

void
shed_forget(struct hub *hub)
{
    struct session *session;

    DL_FOREACH (hub->sessions, session)
        session->control.has_shed = false;
    memcpy(hub->shed.hold, hub->newest, sizeof(hub->newest));
}

void
shed_start(struct hub *hub)
{
    const double every_s = PRESSURE_EVERY_MS / 1000.0;

    hub->shed.measured_us = clock_monotonic_us();
    ev_timer_init(&hub->shed.measure, on_measure, every_s, every_s);
    hub->shed.measure.data = hub;
    ev_timer_start(hub->loop, &hub->shed.measure);
}

void
shed_stop(struct hub *hub)
{
    ev_timer_stop(hub->loop, &hub->shed.measure);
}
