/* tree.h: checks a table with a live rule, its partitions and child tables. */
#ifndef CLAIRON_ROW_TREE_H
#define CLAIRON_ROW_TREE_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Locks all partitions and child tables of the relation, which must be locked, until the end of the
 * transaction. Raises an error unless each is a table of the relation's owner whose rows the active
 * snapshot can see: a table rewritten later is a serialization failure. To be called before a query
 * on the relation is planned: the planner runs code of the owners.
 */
extern void tree_check(Relation relation);

#endif
