/*
 * inheritance.h: partitioned tables and inheritance parents.
 *
 * The rules of all ancestors of a table apply to its rows. A table may have many ancestors, and
 * each catalog change may have changed them, so the parents of each table are remembered. The
 * parents as of a catalog state are right. Those of an earlier state are right unless an
 * invalidation was lost, which releases of PostgreSQL before May 2025 do during a transaction that
 * overlaps with DDL. The caller reads them again as far as the owner of a table has time for it.
 */
#ifndef CLAIRON_INHERITANCE_H
#define CLAIRON_INHERITANCE_H

#include "postgres.h"

#include "nodes/pg_list.h"

struct inheritance;

extern struct inheritance *inheritance_new(MemoryContext context);

/*
 * The relation may have other parents. InvalidOid: any relation. Returns true when the relation is
 * a known parent.
 */
extern bool inheritance_outdate(struct inheritance *inheritance, Oid relid);

/* Forgets all relations when there are too many. Returns false otherwise. */
extern bool inheritance_limit(struct inheritance *inheritance);

/* ancestors_of returns at most one more. */
#define ANCESTORS_MAX 1000

/*
 * Returns the OIDs of all tables of which the relation is a partition or child, nearest first.
 * Outdated parents are read for the catalog state `state`, with `again` also those that were read
 * for another one.
 */
extern List *ancestors_of(struct inheritance *inheritance, Oid relid, uint64 state, bool again);

/* True when the relation may be cached as of another catalog state: once for each `number`. */
extern bool inheritance_is_past(struct inheritance *inheritance, Oid relid, uint64 number);

#endif
