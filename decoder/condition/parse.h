/* parse.h: parses expressions on the columns of one relation. */
#ifndef CLAIRON_CONDITION_PARSE_H
#define CLAIRON_CONDITION_PARSE_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "utils/rel.h"

/*
 * Parses the stored form; $n becomes a Var of the relation's column map[n - 1] + 1. Raises an error
 * when the expression is no longer valid for the columns.
 */
extern Node *condition_parse_stored(const char *stored, const int *map, int map_count,
                                    TupleDesc desc);

/*
 * The map for a stored form in which $n is column numbers[i] where origins[i] is n. `columns` is
 * the map by column number. Allocated; -1 for no column.
 */
extern int *condition_map(const int16 *origins, const int16 *numbers, int count, const int *columns,
                          int column_count, int *ret_count);

#endif
