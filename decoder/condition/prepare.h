/* prepare.h: prepare a checked expression for evaluation, without the planner. */
#ifndef CLAIRON_CONDITION_PLAN_H
#define CLAIRON_CONDITION_PLAN_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Completes the calls and folds constants, in the current memory context. The planner would do
 * more: inline functions, call support functions, and fold constants without any bound.
 */
extern Node *condition_prepare(Node *expression);

/*
 * True for a plain condition, as nearly all are: columns compared with constants by PostgreSQL's
 * own operators, IN, LIKE, boolean logic. The time and memory of its evaluation are at most
 * *ret_weight times the size of the columns that it reads.
 */
extern bool condition_is_plain(Node *expression, int64 *ret_weight);

#endif
