/* source.h: finds a live rule by the source in its notifications. */
#ifndef CLAIRON_ROW_SOURCE_H
#define CLAIRON_ROW_SOURCE_H

#include "postgres.h"

#include "rules/rules.h"

/*
 * The live rule with this name, as of the active snapshot, whose notifications have this source:
 * the table, or schema.table outside of the schema public. NULL: no such rule exists, or several
 * tables with such rules have the same source.
 */
extern struct rule *source_find_rule(const char *source, const char *name);

#endif
