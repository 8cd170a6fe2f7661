/* change.h: applies the rules of a relation to one change. */
#ifndef CLAIRON_CHANGE_H
#define CLAIRON_CHANGE_H

#include "postgres.h"

#include "replication/logical.h"

#include "plan/plan.h"

extern void change_row(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
                       ReorderBufferChange *change);
/* `relation` is one of the truncated tables. */
extern void change_truncate(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
                            const ReorderBufferChange *change);

#endif
