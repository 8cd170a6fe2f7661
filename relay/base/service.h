/* service.h: what the service manager is told that started this process, if one did. */
#ifndef CLAIRON_BASE_SERVICE_H
#define CLAIRON_BASE_SERVICE_H

#include <stdint.h>

/*
 * Sends lines as of sd_notify(3) to the socket that NOTIFY_SOCKET names; without one, nothing. What
 * cannot be sent is logged: a manager that hears nothing must not stop the service itself.
 */
void service_tell(const char *lines);

void service_tell_reloading(void);

/* Clients are sent away over drain_ms: a manager that waits less must not kill meanwhile. */
void service_tell_stopping(int64_t drain_ms);

/* How often the manager wants to hear service_tell("WATCHDOG=1"); 0: not at all. */
int64_t service_watchdog_us(void);

/* A child's word would be taken for its parent's: it has no manager. */
void service_leave(void);

#endif
