/* load_shedding.c: measures overload, and announces to clients what was dropped. */
#include "hub/load_shedding.h"

#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/position.h"
#include "hub/turn.h"

#define TELL_US (30 * 1000000) /* a client is told so long after the first loss at the latest */

static void
note_delay(struct ready_list *ready, int64_t delay_us)
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
    log_warnf("hub", "%llu lines were left out, %llu clients are told of the gap",
              (unsigned long long)hub->shed.count, (unsigned long long)clients);
}

static void
set_level(struct hub *hub, enum pressure_level before, int64_t now_us)
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
        .lag_us = hub->config->delivery.shed_lag_ms * 1000,
        .bytes = (size_t)hub->config->delivery.shed_bytes,
    };
    enum pressure_level before = shed->pressure.level;
    int64_t now_us = clock_monotonic_us();

    (void)events;
    ev_timer_again(loop, timer); /* late, it would come twice, and the second time see no lag */
    if (hub->ready.probe != NULL)
        note_delay(&hub->ready, now_us - hub->ready.probe_us);
    note_delay(&hub->ready,
               now_us - shed->measured_us - PRESSURE_EVERY_MS * 1000); /* a long turn */
    hub_publish(hub); /* what was read is judged as it came */
    if (pressure_measure(&shed->pressure, &limits, now_us, hub->ready.delay_us,
                         hub->queued_bytes)) {
        set_level(hub, before, now_us);
    } else if (before != PRESSURE_NONE && now_us - shed->began_us >= TELL_US) {
        end_shedding(hub);
        begin_shedding(hub, now_us);
    }
    shed->measured_us = now_us;
    hub->ready.delay_us = 0;
    stats_set(hub->stats, STAT_HUB_LAG, (uint64_t)shed->pressure.lag_us);
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
