/* turn.h: processes the ready list at the end of each loop iteration. */
#ifndef CLAIRON_HUB_TURN_H
#define CLAIRON_HUB_TURN_H

#include <stdbool.h>

struct hub;

void turn_start(struct hub *hub);
void turn_stop(struct hub *hub);

/*
 * Offers the notifications that were read in this iteration, in order. Call it before a change of
 * memberships or acks.
 */
void hub_publish(struct hub *hub);

/*
 * Processes the ready list. Sends for at most `max` sessions. Frees closed sessions. Returns true
 * if sessions are left.
 */
bool hub_send_some(struct hub *hub, unsigned max);

#endif
