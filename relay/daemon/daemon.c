/* daemon.c: one process of the daemon, with feed, hub and gate on one loop, from start to drain. */
#include "daemon/daemon.h"

#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "feed/feed.h"
#include "gate/gate.h"
#include "hub/hub.h"
#include "rows/rows.h"
#include "sink/sink.h"
#include "store/admin.h"
#include "store/store.h"

/* interval of a worker's heartbeat, which its supervisor checks */
#define HEARTBEAT_US INT64_C(1000000)

enum {
    SIGNAL_TERMINATE,
    SIGNAL_INTERRUPT,
    SIGNAL_RELOAD,
    SIGNAL_REALTIME_OFF,
    SIGNAL_REALTIME_ON,
    SIGNALS_COUNT
};

struct relay {
    struct config *config;
    struct ev_loop *loop;
    struct stats *stats;
    struct gate_sockets sockets;
    pid_t supervisor; /* 0: a single process */
    struct relay_shared *shared;
    struct store *store;
    struct store_listener store_listener;
    struct audit *audit;
    struct feed *feed;              /* NULL without the role */
    struct rows *rows;              /* NULL without the role gate, or without a connection string */
    struct hub *hub;                /* NULL without the role */
    struct web_push_sender *sender; /* NULL without the roles gate and sink, or without a key */
    struct sinks *sinks;            /* NULL without the role, or if none is configured */
    struct gate *gate;
    struct gate_process process;
    ev_signal signals[SIGNALS_COUNT];
    ev_timer heartbeat;
    ev_timer notice; /* of a shutdown, before the drain */
    bool is_draining;
    bool is_failed;   /* the address to listen on is in use */
    bool is_rejected; /* the store belongs to another database or slot, or has other shards */
};

/*
 * Clients are served from the store, so a relay is ready without PostgreSQL: a proxy that takes
 * every relay out would disconnect clients that the store still serves. But before the first slot
 * exists, changes are lost without a gap.
 */
static bool
is_ready(void *ctx, bool needs_feed, struct buffer *detail)
{
    const struct relay *relay = ctx;
    const struct feed_report feed = relay->shared->feed;
    bool has_feed = feed.availability == FEED_AVAILABLE || feed.availability == FEED_STANDBY;
    bool has_slot =
        feed.availability == FEED_OFF || feed.has_slot || store_has_progress(relay->store);
    bool store_works = store_is_serving(relay->store);

    if (buffer_addf(detail, "\"feed\":\"%s\",\"store\":\"%s\",\"draining\":%s",
                    feed_availability_name(feed.availability),
                    !store_works                             ? "down"
                    : store_rejects_heartbeats(relay->store) ? "rejects writes"
                                                             : "up",
                    relay->is_draining ? "true" : "false") != RC_OK)
        return false;
    if ((needs_feed || (relay->hub == NULL && relay->feed != NULL)) && !has_feed)
        return false;
    return has_slot && store_works && !relay->is_draining;
}

static enum rc
rules(void *ctx, struct buffer *out)
{
    struct relay *relay = ctx;

    return relay->feed != NULL ? feed_rules(relay->feed, out) : RC_AGAIN;
}

/* The process with the feed may be writing the text. */
static enum rc
feed_reason(void *ctx, struct buffer *out)
{
    const struct relay *relay = ctx;
    const struct feed_report feed = relay->shared->feed;
    size_t len = strnlen(feed.reason, sizeof(feed.reason));

    return len > 0 ? buffer_add_json(out, feed.reason, len) : buffer_add(out, "null", 4);
}

static enum rc
add_sink(struct buffer *out, const char *name, const char *failing, int64_t failed_ms,
         const char *reason, size_t size)
{
    enum rc rc = buffer_addf(out, "%s{\"name\":\"%s\",%s\"failed_at\":%" PRId64 ",\"reason\":",
                             out->bytes[out->len - 1] == '[' ? "" : ",", name, failing, failed_ms);

    if (rc == RC_OK)
        rc = buffer_add_json(out, reason, strnlen(reason, size));
    return rc == RC_OK ? buffer_addf(out, "}") : rc;
}

static enum rc
add_receipt_sink(struct buffer *out, const char *name, const struct sink_report *report)
{
    const char *failing = report->is_failing ? "\"failing\":true," : "\"failing\":false,";

    if (!report->is_open)
        return RC_OK;
    return add_sink(out, name, failing, report->failed_ms, report->reason, SINK_REASON_MAX);
}

/* Other processes of this relay may be writing a reason. */
static enum rc
sinks(void *ctx, struct buffer *out)
{
    const struct relay *relay = ctx;
    const struct sink_reports reports = relay->shared->sinks;
    const struct web_push_report pushes = relay->shared->web_push;
    enum rc rc = buffer_addf(out, "[");

    if (rc == RC_OK)
        rc = add_receipt_sink(out, "sql", &reports.sql);
    if (rc == RC_OK)
        rc = add_receipt_sink(out, "webhook", &reports.webhook);
    if (rc == RC_OK && pushes.is_open)
        rc = add_sink(out, "webpush", "", pushes.failed_ms, pushes.reason, sizeof(pushes.reason));
    return rc == RC_OK ? buffer_addf(out, "]") : rc;
}

static void
on_drained(void *ctx)
{
    struct relay *relay = ctx;

    log_info("relay", "drained");
    ev_break(relay->loop, EVBREAK_ALL);
}

/* A worker only closes its descriptors, because other workers may still use the sockets. */
static void
stop_listening(struct relay *relay)
{
    if (relay->supervisor == 0)
        gate_unlisten(relay->config, relay->sockets);
    else
        gate_sockets_close(relay->sockets);
    relay->sockets = GATE_NO_SOCKETS;
}

static void
drain(struct relay *relay)
{
    if (relay->gate != NULL)
        gate_drain(relay->gate, on_drained, relay);
    stop_listening(relay);
    if (relay->gate == NULL)
        on_drained(relay);
}

static void
on_notice_over(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    drain(timer->data);
}

/*
 * Serves clients until gateways have noticed that this relay is not ready, then drains. If the
 * supervisor has died, the next one needs the address now.
 */
static void
stop_gracefully(struct relay *relay)
{
    bool is_orphan = relay->supervisor != 0 && getppid() != relay->supervisor;

    if (is_orphan || relay->gate == NULL || !gate_notice(relay->gate)) {
        drain(relay);
        return;
    }
    ev_timer_init(&relay->notice, on_notice_over, (double)relay->config->gate.notice_ms / 1e3, 0.);
    relay->notice.data = relay;
    ev_timer_start(relay->loop, &relay->notice);
}

/*
 * A worker drains when its supervisor sends SIGTERM. A terminal signals the whole process group, so
 * a worker receives two signals: only the supervisor's SIGINT means an immediate stop.
 */
static void
on_stop(struct ev_loop *loop, ev_signal *signal, int events)
{
    struct relay *relay = signal->data;

    (void)events;
    if (relay->is_draining && (relay->supervisor == 0 || signal->signum == SIGINT)) {
        log_warn("relay", "second signal received, stopping immediately",
                 LOG_INT("signal", signal->signum));
        ev_break(loop, EVBREAK_ALL);
    }
    if (relay->is_draining)
        return;
    log_info("relay", "signal received, draining", LOG_INT("signal", signal->signum));
    relay->is_draining = true;
    service_notify_stopping(relay->config);
    feed_close(relay->feed); /* first, so that another relay can acquire the slot */
    sinks_stop(relay->sinks);
    stop_gracefully(relay);
}

static void
reload_auth_key(struct relay *relay)
{
    char error[CONFIG_ERROR_MAX];

    switch (config_reload_key(relay->config, error)) {
    case CONFIG_KEY_FIXED:
        if (relay->config->auth.key != NULL)
            log_warn("relay", "auth key is not in a file: restart to change it");
        break;
    case CONFIG_KEY_BAD:
        log_error("relay", "could not reload the auth key: previous key still in use",
                  LOG_TEXT("error", error));
        break;
    case CONFIG_KEY_UNCHANGED:
        log_info("relay", "auth key file unchanged",
                 LOG_TEXT("hint", relay->config->auth.previous != NULL
                                      ? "to revoke the previous key, touch the file and send SIGHUP"
                                      : NULL));
        break;
    case CONFIG_KEY_CHANGED:
        log_info("relay", "auth key changed: previous key still accepted",
                 LOG_TEXT("hint", "to revoke the previous key, touch the file and send SIGHUP"));
        break;
    case CONFIG_KEY_PREVIOUS_REVOKED:
        log_info("relay", "auth key file touched: previous key revoked");
        break;
    }
    if (!config_reload_jwks(relay->config, error))
        log_error("relay", "could not reload a JWK Set: previous keys still in use",
                  LOG_TEXT("error", error));
    gate_reload_keys(relay->gate);
}

/*
 * Reloads the certificate, the auth key and the secrets of the webhook; all other settings need a
 * restart.
 */
static void
on_hangup(struct ev_loop *loop, ev_signal *signal, int events)
{
    struct relay *relay = signal->data;

    (void)loop;
    (void)events;
    service_notify_reloading();
    if (relay->gate != NULL) {
        gate_tls_reload(relay->gate);
        if (relay->hub != NULL)
            reload_auth_key(relay);
    }
    sinks_reload(relay->sinks);
    service_notify("READY=1");
}

static void
apply_realtime(struct relay *relay)
{
    if (relay->gate != NULL)
        gate_realtime_set(relay->gate, !relay->shared->is_realtime_off);
}

/* One of the workers stores each act of the supervisor. */
static void
store_switches(struct relay *relay)
{
    struct relay_switches *switches = &relay->shared->switches;
    unsigned popped = __atomic_load_n(&switches->popped, __ATOMIC_SEQ_CST);

    while (popped != __atomic_load_n(&switches->added, __ATOMIC_SEQ_CST)) {
        const int64_t at_us = switches->each[popped % RELAY_SWITCHES_MAX].at_us;
        const bool on = switches->each[popped % RELAY_SWITCHES_MAX].on;

        if (!__atomic_compare_exchange_n(&switches->popped, &popped, popped + 1, false,
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            continue; /* another worker has it */
        audit_add(relay->audit, &(struct log_act){"signal", "realtime", on ? "on" : "off", "", ""},
                  at_us);
        popped++;
    }
}

/*
 * The kill switch: SIGUSR1 turns real-time delivery off, SIGUSR2 turns it on. The order of two
 * pending signals is unknown, so off, the safe choice, wins. For a worker, either signal means that
 * is_realtime_off has changed.
 */
static void
on_realtime(struct ev_loop *loop, ev_signal *signal, int events)
{
    struct relay *relay = signal->data;

    (void)events;
    if (relay->supervisor == 0) {
        relay->shared->is_realtime_off = signal->signum == SIGUSR1;
        log_audit("signal", "realtime", signal->signum == SIGUSR1 ? "off" : "on");
    }
    if (signal->signum == SIGUSR1)
        ev_clear_pending(loop, &relay->signals[SIGNAL_REALTIME_ON]);
    apply_realtime(relay);
    store_switches(relay);
}

/*
 * POST /v1/realtime reaches one worker but applies to all workers, so the supervisor signals all
 * of them. If the supervisor has died, the process that adopted this worker must not receive the
 * signal.
 */
static void
request_realtime_switch(void *ctx, bool on)
{
    struct relay *relay = ctx;

    if (relay->supervisor != 0 && getppid() != relay->supervisor)
        return;
    relay->shared->is_realtime_off = !on;
    if (relay->supervisor == 0)
        apply_realtime(relay);
    else
        (void)kill(relay->supervisor, RELAY_SIGNAL_SWITCHED);
}

static void
watch_signals(struct relay *relay)
{
    static const struct {
        int number;
        void (*handle)(struct ev_loop *loop, ev_signal *signal, int events);
    } watched[SIGNALS_COUNT] = {
        [SIGNAL_TERMINATE] = {SIGTERM, on_stop},
        [SIGNAL_INTERRUPT] = {SIGINT, on_stop},
        [SIGNAL_RELOAD] = {SIGHUP, on_hangup},
        [SIGNAL_REALTIME_OFF] = {SIGUSR1, on_realtime},
        [SIGNAL_REALTIME_ON] = {SIGUSR2, on_realtime},
    };
    sigset_t none;

    for (int i = 0; i < SIGNALS_COUNT; i++) {
        ev_signal_init(&relay->signals[i], watched[i].handle, watched[i].number);
        relay->signals[i].data = relay;
        ev_signal_start(relay->loop, &relay->signals[i]);
    }
    /* a worker inherits its supervisor's signal mask, so that early signals do not kill it */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * Reports to the supervisor and the service manager that the loop is running, and writes audit
 * lines that were kept.
 */
static void
on_heartbeat(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct relay *relay = timer->data;

    (void)loop;
    (void)events;
    relay->stats->heartbeat_us = clock_monotonic_us();
    service_notify("WATCHDOG=1");
    log_flush(0);
}

static void
start_heartbeat(struct relay *relay)
{
    int64_t watchdog_us = relay->supervisor != 0 ? 0 : service_watchdog_us();
    int64_t every_us = watchdog_us > 0 ? watchdog_us : HEARTBEAT_US;

    ev_timer_init(&relay->heartbeat, on_heartbeat, (double)every_us / 1e6, (double)every_us / 1e6);
    relay->heartbeat.data = relay;
    ev_timer_start(relay->loop, &relay->heartbeat);
}

/*
 * Each client uses a descriptor, so raises the soft limit to the required number, or to the hard
 * limit if that is lower. It is not raised further: a container may allow 10^9, see
 * gate/net/carrier.c.
 */
static void
set_descriptor_limit(const struct config *config)
{
    rlim_t min = (rlim_t)config->gate.max_connections + GATE_DESCRIPTORS_SPARE;
    rlim_t max = min + GATE_DESCRIPTORS_PASSING;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < max ? limit.rlim_max : max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < min)
        log_warn("relay", "too few file descriptors for gate.max_connections: raise ulimit -n",
                 LOG_UINT("limit", limit.rlim_cur),
                 LOG_INT("max_connections", config->gate.max_connections));
}

static void
on_rejected(void *ctx)
{
    struct relay *relay = ctx;

    log_error("relay", "store belongs to another database or slot, stopping");
    relay->is_rejected = true;
    ev_break(relay->loop, EVBREAK_ALL);
}

/* Accepts clients once they can be served. */
static void
on_store_up(void *ctx)
{
    struct relay *relay = ctx;

    if (relay->hub == NULL || relay->is_draining || gate_accept(relay->gate) == RC_OK)
        return;
    relay->is_failed = true;
    ev_break(relay->loop, EVBREAK_ALL);
}

static void
on_store_rejected(void *ctx)
{
    struct relay *relay = ctx;

    relay->is_rejected = true;
    ev_break(relay->loop, EVBREAK_ALL);
}

static void
on_store_down(void *ctx)
{
    (void)ctx; /* clients stay connected, and wait */
}

static bool
open_modules(struct relay *relay)
{
    const struct config *config = relay->config;

    relay->process =
        (struct gate_process){is_ready, request_realtime_switch, rules, feed_reason, sinks, relay};
    relay->store = store_open(relay->loop, config, relay->stats);
    if (relay->store == NULL)
        return false;
    relay->audit = audit_open(relay->loop, relay->store, relay->stats);
    if ((config->relay.roles & CONFIG_ROLE_GATE) != 0) {
        relay->rows = rows_open(relay->loop, config, relay->stats);
        relay->hub = hub_open(relay->loop, config, relay->store, relay->rows, relay->stats);
        if (relay->hub == NULL)
            return false;
    }
    if (config->webpush.keys[0] != NULL &&
        (config->relay.roles & (CONFIG_ROLE_GATE | CONFIG_ROLE_SINK)) != 0)
        relay->sender = web_push_sender_open(relay->loop, config, relay->store, relay->stats,
                                             &relay->shared->web_push);
    if (gate_has_socket(config)) {
        relay->gate = gate_open(relay->loop, config, relay->hub, relay->sender, relay->stats,
                                &relay->process, relay->sockets);
        if (relay->gate == NULL)
            return false;
    }
    if ((config->relay.roles & CONFIG_ROLE_FEED) != 0)
        relay->feed = feed_open(relay->loop, config, relay->store, relay->stats,
                                &relay->shared->feed, on_rejected, relay);
    if ((config->relay.roles & CONFIG_ROLE_SINK) != 0)
        relay->sinks = sinks_open(relay->loop, config, relay->store, relay->sender, relay->stats,
                                  &relay->shared->sinks);
    relay->store_listener =
        (struct store_listener){on_store_up, on_store_down, on_store_rejected, relay, NULL};
    store_listen(relay->store, &relay->store_listener);
    return true;
}

/* feed, hub and sinks are freed last: store_close may still call back into them. */
static void
close_modules(struct relay *relay)
{
    feed_close(relay->feed);
    gate_close(relay->gate);
    hub_close(relay->hub);
    rows_close(relay->rows);
    sinks_close(relay->sinks);
    web_push_sender_close(relay->sender);
    audit_close(relay->audit);
    store_close(relay->store);
    audit_free(relay->audit);
    feed_free(relay->feed);
    hub_free(relay->hub);
    sinks_free(relay->sinks);
}

int
relay_run(struct config *config, struct stats *stats, struct gate_sockets sockets, pid_t supervisor,
          struct relay_shared *shared)
{
    struct relay relay = {.config = config,
                          .stats = stats,
                          .sockets = sockets,
                          .supervisor = supervisor,
                          .shared = shared};
    sigset_t all;
    bool is_open;

    log_count_lost(&stats->values[STAT_LOG_LOST]);
    relay.loop = ev_loop_new(EVFLAG_AUTO);
    if (relay.loop == NULL) {
        log_error("relay", "could not create an event loop");
        return RELAY_EXIT_FAILED;
    }
    set_descriptor_limit(config);
    watch_signals(&relay);
    is_open = open_modules(&relay);
    if (is_open) {
        log_info("relay", "started", LOG_INT("pid", getpid()));
        start_heartbeat(&relay);
        apply_realtime(&relay);
        store_switches(&relay);
        service_notify("READY=1");
        ev_run(relay.loop, 0);
    }
    close_modules(&relay);
    stop_listening(&relay);
    sigfillset(&all); /* from now on, a signal must not change the exit status */
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < SIGNALS_COUNT; i++)
        ev_signal_stop(relay.loop, &relay.signals[i]);
    ev_timer_stop(relay.loop, &relay.heartbeat);
    ev_timer_stop(relay.loop, &relay.notice);
    ev_loop_destroy(relay.loop);
    log_flush(LOG_FLUSH_MS);
    if (relay.is_rejected)
        return RELAY_EXIT_REJECTED;
    return is_open && !relay.is_failed ? 0 : RELAY_EXIT_FAILED;
}
