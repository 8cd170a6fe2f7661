/* key.h: the key of a table with live rules. */
#ifndef CLAIRON_ROW_KEY_H
#define CLAIRON_ROW_KEY_H

#include "postgres.h"

#include "access/attnum.h"
#include "pg_config_manual.h"
#include "utils/rel.h"

struct row_key {
    int count;
    AttrNumber numbers[INDEX_MAX_KEYS];
    Oid less_than[INDEX_MAX_KEYS]; /* sort operators */
    Oid collations[INDEX_MAX_KEYS];
};

/*
 * Reads the columns of the replica identity index, else of the primary key, as clairon.live_key
 * does. Raises an error when the table has neither.
 */
extern void row_key_read(struct row_key *key, Relation relation);

#endif
