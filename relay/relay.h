/* relay.h: the daemon: feed, hub and gate on one loop. */
#ifndef CLAIRON_RELAY_H
#define CLAIRON_RELAY_H

#include "base/config.h"

/* Runs until SIGTERM or SIGINT has drained it. Returns the process's exit code. */
int relay_run(const struct config *config);

#endif
