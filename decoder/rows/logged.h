/* logged.h: checks that the WAL contains the changes that keep live rows up to date. */
#ifndef CLAIRON_ROW_LOGGED_H
#define CLAIRON_ROW_LOGGED_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

#include "rows/key.h"
#include "rules/rules.h"

/*
 * Raises an error if ALTER TABLE has made a table of the tree unlogged, or its old rows incomplete,
 * since clairon.watch(): a list would then keep rows that its user has lost. Checks the same
 * conditions as clairon.live_faults. `tree`: see tree_check.
 */
extern void logged_check(const struct rule *rule, Relation relation, const struct row_key *key,
                         const List *tree);

#endif
