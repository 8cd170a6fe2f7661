/* query.h: the query for the rows that a live rule may address to a user. */
#ifndef CLAIRON_ROW_QUERY_H
#define CLAIRON_ROW_QUERY_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/rel.h"

#include "plan/plan.h"
#include "rows/recipient.h"

struct row_query {
    StringInfoData text;
    int parameter_count;
    Oid types[LIMIT_PARTS];
    Datum values[LIMIT_PARTS];
    int column_count; /* columns of the result */
    int *indexes;     /* attribute number - 1 of each result column */
    bool is_empty;    /* no row can be addressed to the user: skip the query */
};

/*
 * Writes a SELECT of all columns, in the current memory context. It finds at least the rows that
 * the rule addresses to the user, by conditions on target columns that an index can serve. The
 * caller checks the targets of each row. Calls input functions of types: call it as the table's
 * owner, with the settings of the decoder.
 */
extern void row_query_build(struct row_query *query, Relation relation, const struct plan *plan,
                            const struct recipient *recipient);

#endif
