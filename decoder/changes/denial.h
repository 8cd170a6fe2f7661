/* denial.h: changes that a rule does not send because an account of its owner is used up. */
#ifndef CLAIRON_DENIAL_H
#define CLAIRON_DENIAL_H

#include "postgres.h"

#include "replication/logical.h"

#include "plan/plan.h"

struct decoder;

extern void denial_setup(struct decoder *decoder);

/* Returns true, after counting the denial, when the rule may not process the change. */
extern bool denial_is_due(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan);

/*
 * Counts a denied change of the rule, and logs it at powers of ten. The lists of a live rule are
 * reloaded: once a transaction, but at most RELOADS_PER_SECOND of the owner. Later ones are written
 * by a later transaction.
 */
extern void denial_count(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan,
                         enum account_kind kind);

/* Writes the reloads that earlier transactions have left. */
extern void denial_end_transaction(LogicalDecodingContext *ctx);

#endif
