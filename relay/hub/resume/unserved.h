/* unserved.h: closes sessions that cannot start because the store is unavailable. */
#ifndef CLAIRON_HUB_RESUME_UNSERVED_H
#define CLAIRON_HUB_RESUME_UNSERVED_H

struct hub;

/*
 * Call it every few seconds. A session that has waited for five seconds without `connected`, and
 * whose user the store does not serve, is closed with a delay for its reconnect. Otherwise its
 * client would time out and reconnect, every few seconds.
 */
void unserved_sweep(struct hub *hub);

#endif
