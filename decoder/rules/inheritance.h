/* inheritance.h: partitioned tables and inheritance parents. */
#ifndef CLAIRON_INHERITANCE_H
#define CLAIRON_INHERITANCE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/* The OIDs of the tables that the relation is a partition or a child of, nearest first. */
extern List *ancestors_of(Oid relid);
/* The same as of a registered snapshot; NULL: of the current catalog snapshot. */
extern List *ancestors_as_of(Oid relid, Snapshot snapshot);

#endif
