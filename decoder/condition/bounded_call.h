/* bounded_call.h: expressions whose function calls can be interrupted and are bounded. */
#ifndef CLAIRON_CONDITION_CALL_H
#define CLAIRON_CONDITION_CALL_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/primnodes.h"

/* Work in one call, or in one plain condition: products of sizes in bytes. About half a second. */
#define CONDITION_WORK_MAX (INT64CONST(1) << 28)

/*
 * As ExecInitExpr, in the current memory context. Each call then checks for interrupts first, and
 * raises an error for arguments whose sizes allow more work than CONDITION_WORK_MAX: many functions
 * take time in proportion to the product of two sizes, and look at no cancel request meanwhile.
 */
extern ExprState *condition_init_bounded(Expr *expression);

/* True for an operator that orders or tells apart values: such functions take linear time. */
extern bool condition_is_comparison(Oid operator);

#endif
