/* daemon.h: the daemon: feed, hub and gate on one loop, in one process or several. */
#ifndef CLAIRON_DAEMON_DAEMON_H
#define CLAIRON_DAEMON_DAEMON_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/config.h"
#include "base/stats.h"
#include "feed/feed.h"
#include "gate/gate.h"
#include "sink/sink.h"
#include "web_push/web_push.h"

#define RELAY_EXIT_FAILED 1   /* the process failed to start */
#define RELAY_EXIT_REJECTED 3 /* the store is that of another database, slot or number of shards */
#define RELAY_SIGNAL_SWITCHED SIGRTMIN /* worker to supervisor: is_realtime_off has changed */

/* Acts by signal that the supervisor has logged, for a worker to store. */
#define RELAY_SWITCHES_MAX 64

struct relay_switches {
    struct {
        int64_t at_us;
        bool on;
    } each[RELAY_SWITCHES_MAX];
    unsigned added;
    unsigned popped; /* by any worker */
};

/* State of the relay, in memory that the supervisor and its workers share. */
struct relay_shared {
    bool is_realtime_off; /* the requested state of the kill switch */
    struct relay_switches switches;
    struct feed_report feed;
    struct sink_reports sinks;
    struct web_push_report web_push;
};

/*
 * Runs one process until SIGTERM or SIGINT has drained it. Takes ownership of the sockets, which
 * are absent if no role or setting requires them. `supervisor`: the parent of several workers,
 * which sends SIGINT for an immediate stop; 0: none. The caller may have blocked signals; this
 * function unblocks them. Returns the exit status.
 */
int relay_run(struct config *config, struct stats *stats, struct gate_sockets sockets,
              pid_t supervisor, struct relay_shared *shared);

/*
 * Runs config->gate.workers processes that share the listening socket; the first runs the feed.
 * A worker that dies is restarted. If a worker fails at its first start, or the store belongs to
 * another database or slot, all workers are stopped. Returns the exit status after all have exited.
 */
int workers_run(struct config *config);

/* ---- service.c: notifications to the service manager that started this process */

/*
 * Sends an sd_notify(3) message to NOTIFY_SOCKET; a no-op if the variable is unset. A failure is
 * only logged, so that it does not stop the service.
 */
void service_notify(const char *lines);

void service_notify_reloading(void);

/*
 * Reports a shutdown that takes as long as `config` permits, so that the manager does not kill the
 * process earlier.
 */
void service_notify_stopping(const struct config *config);

/* The interval for WATCHDOG=1: half of the manager's timeout; 0: no watchdog. */
int64_t service_watchdog_us(void);

/* Disables messages of a child process: the manager would attribute them to the parent. */
void service_detach(void);

#endif
