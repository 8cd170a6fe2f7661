/* service.h: notifications to the service manager that started this process. */
#ifndef CLAIRON_BASE_SERVICE_H
#define CLAIRON_BASE_SERVICE_H

#include <stdint.h>

/*
 * Sends an sd_notify(3) message to NOTIFY_SOCKET; without the variable, a no-op. A failure is only
 * logged, so that it cannot stop the service.
 */
void service_notify(const char *lines);

void service_notify_reloading(void);

/* Announces a shutdown of drain_ms, so that the manager does not kill the process earlier. */
void service_notify_stopping(int64_t drain_ms);

/* Interval at which the manager expects WATCHDOG=1; 0: no watchdog. */
int64_t service_watchdog_us(void);

/* For a child process: its messages would be attributed to the parent. */
void service_detach(void);

#endif
