/* load_shedding.c: measures overload, and announces dropped notifications to clients. */
#include "hub/load_shedding.h"

#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "hub/gap.h"
#include "hub/hub_state.h"
#include "hub/cursors.h"
#include "hub/turn.h"

#define ANNOUNCE_US (30 * 1000000) /* maximum time from the first dropped notification to the gap */

static void
record_delay(struct ready_list *ready, int64_t delay_us)
{
    if (delay_us > ready->delay_us)
        ready->delay_us = delay_us;
}

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
        if (!session->control.has_dropped)
            continue;
        session->control.has_dropped = false;
        session_gap(session, cursor_from_heads(hub->shed.hold, session->client.own_shard),
                    session_reached(session), "shed");
        clients++;
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

static void
on_measure(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;
    struct shed *shed = &hub->shed;
    const struct pressure_limits limits = {
        .delay_us = hub->config->delivery.shed_lag_ms * 1000,
        .bytes = (size_t)hub->config->delivery.shed_bytes,
    };
    enum pressure_level before = shed->pressure.level;
    int64_t now_us = clock_monotonic_us();

    (void)events;
    ev_timer_again(loop,
                   timer); /* a late timer would fire twice, and the second time measure no delay */
    if (hub->ready.probe != NULL)
        record_delay(&hub->ready, now_us - hub->ready.probe_us);
    record_delay(&hub->ready,
                 now_us - shed->measured_us - PRESSURE_EVERY_MS * 1000); /* a long loop iteration */
    hub_publish(hub); /* at the level that applied when it was read */
    if (pressure_measure(&shed->pressure, &limits, now_us, hub->ready.delay_us,
                         hub->queued_bytes)) {
        set_level(hub, before, now_us);
    } else if (before != PRESSURE_NONE && now_us - shed->began_us >= ANNOUNCE_US) {
        end_shedding(hub);
        begin_shedding(hub, now_us);
    }
    shed->measured_us = now_us;
    hub->ready.delay_us = 0;
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
