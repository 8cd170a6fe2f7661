/* parse.h: expressions on one relation's columns, from text and back. */
#ifndef CLAIRON_CONDITION_PARSE_H
#define CLAIRON_CONDITION_PARSE_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "utils/rel.h"

/*
 * Parses the stored form; $n becomes a Var of the relation's column map[n - 1] + 1.
 * Raises an error when the text does not fit the columns any more.
 */
extern Node *condition_parse_stored(const char *stored, const int *map, int map_count,
                                    Relation relation);

/*
 * The map for a stored form in which $n is the column numbers[i] whose origins[i]
 * is n, out of a map by column number; allocated, -1 where there is none.
 */
extern int *condition_map(const int16 *origins, const int16 *numbers, int count, const int *columns,
                          int column_count, int *ret_count);

#endif
