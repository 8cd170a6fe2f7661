/* turn.h: processes the ready list at the end of each loop iteration. */
#ifndef CLAIRON_HUB_TURN_H
#define CLAIRON_HUB_TURN_H

#include <stdbool.h>

struct hub;

void turn_start(struct hub *hub);
void turn_stop(struct hub *hub);

/*
 * Offers the notifications read in this iteration, in order. Call it before a change of memberships
 * or acks.
 */
void hub_publish(struct hub *hub);

/*
 * Processes the ready list; of the sessions that have something to send, the first `max`. Frees
 * closed sessions. True: others are left.
 */
bool hub_send_some(struct hub *hub, unsigned max);

/* Refills all sessions that have room; on a heartbeat any room is enough. */
void hub_refill(struct hub *hub, bool is_heartbeat);

#endif
