/* service.h: notifications to the service manager that started this process. */
#ifndef CLAIRON_DAEMON_SERVICE_H
#define CLAIRON_DAEMON_SERVICE_H

#include <stdint.h>

#include "base/config.h"

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
