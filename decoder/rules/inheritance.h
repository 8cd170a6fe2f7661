/* inheritance.h: partitioned tables and inheritance parents. */
#ifndef CLAIRON_INHERITANCE_H
#define CLAIRON_INHERITANCE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* The OIDs of all tables of which the relation is a partition or child, nearest first. */
extern List *ancestors_of(Oid relid);

#endif
