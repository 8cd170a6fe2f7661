/* load_shedding.h: measures overload, and announces dropped notifications to clients. */
#ifndef CLAIRON_HUB_LOAD_SHEDDING_H
#define CLAIRON_HUB_LOAD_SHEDDING_H

struct hub;

void shed_start(struct hub *hub);
void shed_stop(struct hub *hub);

/* Called when the store was emptied: the gap of the new epoch covers all dropped notifications. */
void shed_reset(struct hub *hub);

#endif
