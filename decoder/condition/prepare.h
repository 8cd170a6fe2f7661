/* prepare.h: prepares a checked expression for evaluation, without the planner. */
#ifndef CLAIRON_CONDITION_PLAN_H
#define CLAIRON_CONDITION_PLAN_H

#include "postgres.h"

#include "nodes/nodes.h"

struct objects;

/*
 * Completes the calls and folds constants, in the current memory context. The planner also inlines
 * functions, calls support functions, and folds constants without a limit. Adds the objects that
 * the expression uses: with *ret_is_lasting it is the same until one of them changes.
 */
extern Node *condition_prepare(Node *expression, struct objects *objects, bool *ret_is_lasting);

/*
 * True for a plain condition: only IN, LIKE, boolean logic, and comparisons of columns with
 * constants by PostgreSQL's own operators. Most conditions are plain. The time and memory of its
 * evaluation are at most *ret_weight times the size of its columns.
 */
extern bool condition_is_plain(Node *expression, int64 *ret_weight);

#endif
