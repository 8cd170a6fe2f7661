/* bounded_call.h: makes function calls of expressions interruptible, and limits their work. */
#ifndef CLAIRON_CONDITION_CALL_H
#define CLAIRON_CONDITION_CALL_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/primnodes.h"

/*
 * The limit for one call or one plain condition: a product of sizes in bytes. About half a second.
 */
#define CONDITION_WORK_MAX (INT64CONST(1) << 28)

/*
 * As ExecInitExpr, in the current memory context. Each call then checks for interrupts first, and
 * raises an error when its arguments allow more work than CONDITION_WORK_MAX. The run time of many
 * functions is proportional to the product of two sizes, and they do not check for interrupts.
 */
extern ExprState *condition_init_bounded(Expr *expression);

/* True for a comparison operator: its function needs linear time. */
extern bool condition_is_comparison(Oid operator);

#endif
