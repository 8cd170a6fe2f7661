/* daemon.h: the daemon: feed, hub and gate on one loop, in one process or several. */
#ifndef CLAIRON_DAEMON_DAEMON_H
#define CLAIRON_DAEMON_DAEMON_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/config.h"
#include "base/stats.h"
#include "gate/gate.h"

#define RELAY_EXIT_FAILED 1            /* of a process that could not serve at all */
#define RELAY_EXIT_REFUSED 3           /* the store belongs to another database or slot */
#define RELAY_SIGNAL_SWITCHED SIGRTMIN /* worker to supervisor: *is_push_off has changed */

/*
 * One process's work, until SIGTERM or SIGINT has drained it. The sockets are taken over; none
 * without a role or setting that listens. supervisor: the parent of several workers, which
 * repeats a stop by SIGINT; 0: there is none. *is_push_off is the wanted state of the kill switch,
 * shared by supervisor and workers. Signals may be blocked until it handles them. Returns the exit
 * code.
 */
int relay_run(struct config *config, struct stats *stats, struct gate_sockets sockets,
              pid_t supervisor, bool *is_push_off);

/*
 * The same in config->gate.workers processes that share the listening socket; the first carries
 * the feed. A worker that dies is restarted; one that cannot serve at the very start, or whose
 * database the store refuses, ends all. Returns when all have ended.
 */
int workers_run(struct config *config);

#endif
