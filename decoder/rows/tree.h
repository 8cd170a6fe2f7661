/* tree.h: checks a table with a live rule, its partitions and child tables. */
#ifndef CLAIRON_ROW_TREE_H
#define CLAIRON_ROW_TREE_H

#include "postgres.h"

#include "nodes/plannodes.h"
#include "utils/rel.h"

/*
 * Locks all partitions and child tables of the relation, which must be locked, until the end of the
 * transaction. Raises an error unless each is a table of the relation's owner with rows visible to
 * the active snapshot; a table that was rewritten later is a serialization failure. Call it before
 * a query on the relation is planned, since the planner runs code of the owners. Returns the tree:
 * the OIDs of all these tables.
 */
extern List *tree_check(Relation relation);

/*
 * A lock on the relation does not prevent other sessions from adding a partition or child table.
 * Both functions raise a serialization failure if the tree has changed. Call the first function
 * directly before a query is planned, when all locks are held, and the second with the plan.
 * Between them the planner may run code of an added table's owner, but no row is read.
 */
extern void tree_check_again(Relation relation, const List *tree);
extern void tree_check_plan(Relation relation, const List *tree, const PlannedStmt *plan);

#endif
