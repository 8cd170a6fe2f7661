/* prepare.h: prepares a checked expression for evaluation, without the planner. */
#ifndef CLAIRON_CONDITION_PLAN_H
#define CLAIRON_CONDITION_PLAN_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Completes the calls and folds constants, in the current memory context. The planner also inlines
 * functions, calls support functions, and folds constants without a limit.
 */
extern Node *condition_prepare(Node *expression);

/*
 * True for a plain condition: only IN, LIKE, boolean logic, and comparisons of columns with
 * constants by PostgreSQL's own operators. Most conditions are plain. The time and memory of its
 * evaluation are at most *ret_weight times the size of its columns.
 */
extern bool condition_is_plain(Node *expression, int64 *ret_weight);

/*
 * True when the expression uses no function, operator, type or collation outside PostgreSQL itself,
 * and no constant that names an object.
 */
extern bool condition_uses_only_system_objects(Node *expression);

#endif
