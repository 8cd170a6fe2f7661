/* denial.h: changes that a rule does not send because an account of its owner is used up. */
#ifndef CLAIRON_DENIAL_H
#define CLAIRON_DENIAL_H

#include "postgres.h"

#include "replication/logical.h"

#include "plan/plan.h"

/* Returns true, after counting the denial, when the rule may not process the change. */
extern bool denial_is_due(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan);

/* Counts a denied change, logs it at powers of ten, and reloads the lists of a live rule. */
extern void denial_count(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan,
                         enum account_kind kind);

#endif
