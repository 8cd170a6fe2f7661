/* relation.h: the cache of relations and their plans. */
#ifndef CLAIRON_RELATION_H
#define CLAIRON_RELATION_H

#include "plan/plan.h"

/* Creates the cache and registers the invalidation callbacks. */
extern void relation_setup(struct decoder *decoder);

/* Reads the rules again unless they were read in an equal catalog snapshot. */
extern void relation_refresh_rules(struct decoder *decoder, TransactionId xid);

/* Returns the plans of the relation; NULL: no rule applies. */
extern struct plan_set *relation_look_up(struct decoder *decoder, Relation relation,
                                         TransactionId xid);

#endif
