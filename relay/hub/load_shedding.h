/* load_shedding.h: measures overload, and announces to clients what was dropped. */
#ifndef CLAIRON_HUB_LOAD_SHEDDING_H
#define CLAIRON_HUB_LOAD_SHEDDING_H

struct hub;

void shed_start(struct hub *hub);
void shed_stop(struct hub *hub);

/* The store was emptied: the new epoch's gap covers all that was dropped. */
void shed_reset(struct hub *hub);

#endif
