/* scan.h: reads the rows that a live rule addresses to a user. */
#ifndef CLAIRON_ROW_SCAN_H
#define CLAIRON_ROW_SCAN_H

#include "postgres.h"

#include "utils/rel.h"

#include "base/data.h"
#include "rows/key.h"
#include "rows/recipient.h"

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
