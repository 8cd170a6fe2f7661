/*
 * load_shedding.c: drops notifications while this process is short of CPU or memory, and announces
 * them afterwards.
 */
#include "hub/hub_private.h"

#include <string.h>

#include <utlist.h>

#include "base/log.h"

/* ---- overload */

#define STEP_US 1000000
#define SMOOTH 4 /* weight of a measurement: a quarter */

bool
pressure_measure(struct pressure *pressure, const struct pressure_limits *limits, int64_t now_us,
                 int64_t delay_us, size_t bytes)
{
    enum pressure_level before = pressure->level;
    bool is_over, is_calm;

    /*
     * A single long pause is not overload, because the process may have been stopped. Three in a
     * row are.
     */
    if (limits->delay_us > 0 && delay_us > 2 * limits->delay_us)
        delay_us = 2 * limits->delay_us;
    pressure->delay_us += (delay_us - pressure->delay_us) / SMOOTH;
    is_over = (limits->delay_us > 0 && pressure->delay_us >= limits->delay_us) ||
              (limits->bytes > 0 && bytes >= limits->bytes);
    is_calm = (limits->delay_us == 0 || pressure->delay_us < limits->delay_us / 2) &&
              (limits->bytes == 0 || bytes < limits->bytes / 2);
    if (is_over != pressure->was_over || is_calm != pressure->was_calm)
        pressure->since_us = now_us;
    pressure->was_over = is_over;
    pressure->was_calm = is_calm;
    if (is_over && before == PRESSURE_NONE)
        pressure->level = PRESSURE_LOW;
    else if (now_us - pressure->since_us < STEP_US)
        return false;
    else if (is_over && before == PRESSURE_LOW)
        pressure->level = PRESSURE_NORMAL;
    else if (is_calm && before != PRESSURE_NONE)
        pressure->level = before == PRESSURE_NORMAL ? PRESSURE_LOW : PRESSURE_NONE;
    pressure->since_us = now_us;
    return pressure->level != before;
}

/* ---- dropped notifications */

#define LIMIT_MIN (64u * 1024 * 1024) /* a few large notifications */

/* Only REALTIME notifications that need no ack may be dropped. */
bool
shed_drops(const struct hub *hub, const struct notification *notification)
{
    const struct frame_notification *frame = &notification->frame.as.notification;
    const enum pressure_level level = hub->shed.pressure.level;

    return level != PRESSURE_NONE && !notification->needs_ack &&
           frame->type == FRAME_TYPE_REALTIME &&
           (frame->priority == FRAME_PRIORITY_LOW ||
            (level == PRESSURE_NORMAL && frame->priority == FRAME_PRIORITY_NORMAL)) &&
           entry_id_less(hub->shed.hold[notification->shard], notification->id);
}

unsigned
shed_count_kept(const struct hub *hub, struct notification *const *notifications, unsigned count)
{
    unsigned kept = 0;

    if (hub->shed.pressure.level == PRESSURE_NONE)
        return count;
    while (kept < count && !shed_drops(hub, notifications[kept]))
        kept++;
    return kept;
}

const struct entry_id *
shed_reported_heads(const struct hub *hub)
{
    return hub->shed.pressure.level == PRESSURE_NONE ? hub->newest : hub->shed.hold;
}

bool
hub_is_over_limit(const struct hub *hub)
{
    const size_t shed_bytes = (size_t)hub->config->delivery.shed_bytes;

    return shed_bytes > 0 && hub->queued_bytes > 2 * shed_bytes && hub->queued_bytes > LIMIT_MIN;
}

void
session_count_shed(struct session *session, const struct notification *notification)
{
    struct hub *hub = session->hub;
    bool is_low = notification->frame.as.notification.priority == FRAME_PRIORITY_LOW;

    session->control.has_dropped = true;
    hub->shed.count++;
    stats_add(hub->stats, is_low ? STAT_HUB_SHED_LOW : STAT_HUB_SHED_NORMAL, 1);
}

bool
session_announce_shed(struct session *session)
{
    if (!session->control.has_dropped)
        return false;
    session->control.has_dropped = false;
    session_gap(session, cursor_from_heads(session->hub->shed.hold, session->client.own_shard),
                session_reached(session), "shed");
    return true;
}

/* ---- measurements */

#define ANNOUNCE_US (30 * 1000000) /* maximum time from the first dropped notification to the gap */

static void
begin_shedding(struct hub *hub, int64_t now_us)
{
    memcpy(hub->shed.hold, hub->newest, sizeof(hub->newest));
    hub->shed.began_us = now_us;
    hub->shed.count = 0;
}

static void
end_shedding(struct hub *hub)
{
    struct session *session, *next;
    uint64_t clients = 0;

    DL_FOREACH_SAFE (hub->sessions, session, next) {
        clients += session_announce_shed(session);
    }
    log_warn("hub", "load shedding: gap announced", LOG_UINT("dropped", hub->shed.count),
             LOG_UINT("clients", clients));
}

static void
set_level(struct hub *hub, enum pressure_level before, int64_t now_us)
{
    static const char *const dropped[] = {"none", "LOW", "LOW,NORMAL"};
    const struct shed *shed = &hub->shed;
    enum pressure_level level = shed->pressure.level;

    stats_set(hub->stats, STAT_HUB_SHEDDING, level);
    log_warn("hub",
             level > before ? "short of CPU or memory: load shedding increased"
                            : "load shedding reduced",
             LOG_TEXT("dropped_priorities", dropped[level]),
             LOG_INT("delay_ms", shed->pressure.delay_us / 1000),
             LOG_UINT("queued_bytes", hub->queued_bytes));
    if (before == PRESSURE_NONE)
        begin_shedding(hub, now_us);
    else if (level == PRESSURE_NONE)
        end_shedding(hub);
}

void
shed_measure(struct hub *hub, int64_t now_us)
{
    struct shed *shed = &hub->shed;
    struct ready_list *ready = &hub->ready;
    /* a long loop iteration */
    int64_t delay_us = now_us - shed->measured_us - PRESSURE_EVERY_MS * 1000;
    const struct pressure_limits limits = {
        .delay_us = hub->config->delivery.shed_lag_ms * 1000,
        .bytes = (size_t)hub->config->delivery.shed_bytes,
    };
    enum pressure_level before = shed->pressure.level;

    if (delay_us < ready->delay_us)
        delay_us = ready->delay_us;
    if (ready->probe != NULL && delay_us < now_us - ready->probe_us)
        delay_us = now_us - ready->probe_us;
    if (pressure_measure(&shed->pressure, &limits, now_us, delay_us, hub->queued_bytes)) {
        set_level(hub, before, now_us);
    } else if (before != PRESSURE_NONE && now_us - shed->began_us >= ANNOUNCE_US) {
        end_shedding(hub);
        begin_shedding(hub, now_us);
    }
    shed->measured_us = now_us;
    ready->delay_us = 0;
    stats_set(hub->stats, STAT_HUB_LAG, (uint64_t)shed->pressure.delay_us);
    stats_set(hub->stats, STAT_HUB_QUEUED, hub->queued_bytes);
}

void
shed_reset(struct hub *hub)
{
    struct session *session;

    DL_FOREACH (hub->sessions, session)
        session->control.has_dropped = false;
    memcpy(hub->shed.hold, hub->newest, sizeof(hub->newest));
}
