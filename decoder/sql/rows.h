/* rows.h: reads the rows that a live rule addresses to a user. */
#ifndef CLAIRON_ROWS_H
#define CLAIRON_ROWS_H

#include "postgres.h"

#include "access/attnum.h"
#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
#include "nodes/plannodes.h"
#include "pg_config_manual.h"
#include "utils/jsonb.h"
#include "utils/rel.h"

#include "base/data.h"
#include "protocol/limits.h"
#include "rules/rules.h"

/* rows.c */

/*
 * Flushes the WAL of all transactions that have ended, and returns the position behind it. A
 * standby replays only flushed WAL: InvalidXLogRecPtr.
 */
extern XLogRecPtr flush_finished_transactions(void);

/* live_table.c */

/*
 * Locks all partitions and child tables of the relation, which must be locked, until the end of the
 * transaction. Raises an error unless each is a table of the relation's owner with rows visible to
 * the active snapshot; a table that was rewritten later is a serialization failure. Call it before
 * a query on the relation is planned, since the planner runs code of the owners. Returns the tree:
 * the OIDs of all these tables.
 */
extern List *tree_check(Relation relation);

/*
 * A lock on the relation does not prevent other sessions from adding a partition or child table.
 * Both functions raise a serialization failure if the tree has changed. Call the first function
 * directly before a query is planned, when all locks are held, and the second with the plan.
 * Between them the planner may run code of an added table's owner, but no row is read.
 */
extern void tree_check_again(Relation relation, const List *tree);
extern void tree_check_plan(Relation relation, const List *tree, const PlannedStmt *plan);

struct row_key {
    int count;
    AttrNumber numbers[INDEX_MAX_KEYS];
    Oid less_than[INDEX_MAX_KEYS]; /* sort operators */
    Oid collations[INDEX_MAX_KEYS];
};

/*
 * Reads the columns of the replica identity index, else of the primary key, as live_key in SQL
 * does. Raises an error when the table has neither.
 */
extern void row_key_read(struct row_key *key, Relation relation);

/*
 * Raises an error if ALTER TABLE has made a table of the tree unlogged, or its old rows incomplete,
 * since clairon.watch(): a list would then keep rows that its user has lost. Checks the same
 * conditions as live_faults in SQL. `tree`: see tree_check.
 */
extern void logged_check(const struct rule *rule, Relation relation, const struct row_key *key,
                         const List *tree);

/* scan.c */

/* The targets of one part of an audience that address the user. */
struct recipient_part {
    const char *kind; /* "STRUCTURE"; "" for a user */
    int count;
    char **plain;           /* targets in the server's encoding */
    struct fragment *texts; /* targets in UTF-8, sorted */
};

struct recipient {
    int part_count; /* parts of the audience; 0 for ALL */
    struct recipient_part parts[LIMIT_PARTS];
};

/*
 * Finds the targets of the rule's audience that address the user: the user's id, or the user's
 * groups in clairon.member and in `groups`, {"STRUCTURE":["s1"]}. Reads memberships under the
 * active snapshot, with the privileges of the current user. Requires a connection to SPI. All
 * memory is in the current memory context.
 */
extern void recipient_load(struct recipient *recipient, const struct rule *rule,
                           const char *user_id, Jsonb *groups);

/* True when one of the targets, in the form of a notification, addresses the user. */
extern bool recipient_is_addressed(const struct recipient *recipient,
                                   const struct target_list *targets);

struct row_scan {
    const struct rule *rule;
    Relation relation; /* the rule's relation, locked */
    const List *tree;  /* the result of tree_check */
    const struct row_key *key;
    const struct recipient *recipient;
    int max_rows;
    int64 max_bytes; /* bytes of JSON */
    void (*put)(void *arg, struct fragment row);
    void *arg;
};

/*
 * Calls put(arg, row) for each row in the order of the key, with the JSON that payload.after would
 * contain. Reads under the active snapshot. Raises an error, before the first row, when there are
 * more rows or bytes than allowed.
 *
 * Code of the table's owner may run during the scan: in expressions of indexes and constraints,
 * which the planner evaluates, and in only_when. So everything runs as the owner, read-only and
 * security-restricted. Settings that such code changes are reverted. The settings of the decoder
 * must be in effect. Requires a connection to SPI.
 */
extern void row_scan_run(const struct row_scan *scan);

#endif
