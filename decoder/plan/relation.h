/* relation.h: the cache of relations and their plans. */
#ifndef CLAIRON_RELATION_H
#define CLAIRON_RELATION_H

#include "postgres.h"

#include "replication/reorderbuffer.h"

#include "plan/plan.h"

/* Creates the cache and registers the invalidation callbacks. */
extern void relation_setup(struct decoder *decoder);

/* Determines which rules differ in the current catalog snapshot. */
extern void relation_refresh_rules(struct decoder *decoder, TransactionId xid);

/* Call it for each change of clairon.rule, with its top-level transaction. */
extern void relation_rule_written(struct decoder *decoder, TransactionId xid, Relation table,
                                  const ReorderBufferChange *change);

/* All rules will be read again. */
extern void relation_forget_rules(struct decoder *decoder);

/* Returns the plans of the relation; NULL: no rule applies. */
extern struct plan_set *relation_look_up(struct decoder *decoder, Relation relation,
                                         TransactionId xid);

#endif
