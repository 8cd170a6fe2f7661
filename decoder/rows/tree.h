/* tree.h: checks a table with a live rule, its partitions and child tables. */
#ifndef CLAIRON_ROW_TREE_H
#define CLAIRON_ROW_TREE_H

#include "postgres.h"

#include "nodes/plannodes.h"
#include "utils/rel.h"

/*
 * Locks all partitions and child tables of the relation, which must be locked, until the end of the
 * transaction. Raises an error unless each is a table of the relation's owner whose rows the active
 * snapshot can see: a table rewritten later is a serialization failure. To be called before a query
 * on the relation is planned: the planner runs code of the owners. Returns the tree: the OIDs of
 * all these tables.
 */
extern List *tree_check(Relation relation);

/*
 * A lock on the relation does not keep others from adding a partition or child table. Raise a
 * serialization failure if the tree has changed: call the first function directly before a query is
 * planned, when all locks are held, and the second one with its plan. Between them the planner may
 * have run code of the added table's owner, but no row was read.
 */
extern void tree_check_again(Relation relation, const List *tree);
extern void tree_check_plan(Relation relation, const List *tree, const PlannedStmt *plan);

#endif
