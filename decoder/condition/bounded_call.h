/* bounded_call.h: makes function calls of expressions interruptible, and limits their work. */
#ifndef CLAIRON_CONDITION_CALL_H
#define CLAIRON_CONDITION_CALL_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/primnodes.h"

/*
 * The work limit of one call or plain condition, a product of sizes in bytes: about half a second.
 */
#define CONDITION_WORK_MAX (INT64CONST(1) << 28)

/*
 * Like ExecInitExpr, in the current memory context. Each call of the expression first checks for
 * interrupts, and raises an error when its arguments allow more work than CONDITION_WORK_MAX. The
 * run time of many functions is proportional to the product of two sizes, and they do not check for
 * interrupts.
 */
extern ExprState *condition_init_bounded(Expr *expression);

/* True for a comparison operator: its function needs linear time. */
extern bool condition_is_comparison(Oid operator);

#endif
