/* user_rows.h: reads the rows that a live rule addresses to a user. */
#ifndef CLAIRON_USER_ROWS_H
#define CLAIRON_USER_ROWS_H

#include "postgres.h"

#include "access/attnum.h"
#include "access/stratnum.h"
#include "access/xlogdefs.h"
#include "catalog/pg_attribute.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "nodes/plannodes.h"
#include "pg_config_manual.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "utils/rel.h"

#include "base/data.h"
#include "protocol/limits.h"
#include "rules/rules.h"

/* user_rows.c */

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

/* list_request.c */

/* Faults of a request, by their codes for clients. */
#define REQUEST_DENIED 103  /* it names a column that it may not name */
#define REQUEST_INVALID 107 /* the form, or a value that a column's type rejects */

/* A type with a default order. */
struct row_type {
    Oid type;                               /* base type */
    Oid operators[BTMaxStrategyNumber + 1]; /* by btree strategy */
};

/* Returns false when the type, or a type within it, has no default btree operator class. */
extern bool row_type_read(struct row_type *type, Oid declared);

/* A value in a request, before the column's type reads it. */
struct given_value {
    enum jbvType kind; /* a scalar */
    char *text;        /* NULL: null */
};

/* A condition of the filter: equality with one of the values, or a range. */
struct row_condition {
    const char *name;
    AttrNumber number;
    struct row_type type;
    bool or_null; /* null also matches */
    bool is_range;
    bool has_from; /* the first value is included; the last one, if it is another, is not */
    int given_count;
    struct given_value *given;
    Datum *values; /* by `given`, after row_request_convert */
};

/* A column of the order. Null is above all values, as in PostgreSQL's defaults. */
struct order_column {
    AttrNumber number;
    bool is_descending;
    bool is_nullable;
    Oid collation;
    struct row_type type;
    struct given_value given; /* in `after` */
    bool is_null;             /* in `after` */
    Datum after;
};

/* The names of fields in texts of faults. */
struct row_request_fields {
    const char *filter;
    const char *sort;
    const char *after;
};

struct row_request {
    const struct row_request_fields *fields;
    const struct rule *rule;
    Relation relation;
    const struct row_key *key;
    int max_rows;
    bool is_count;
    bool has_limit;
    int limit;
    int condition_count;
    struct row_condition *conditions;
    int order_count;
    struct order_column *order; /* the last columns make it total: those of the key */
    bool has_after;
    int fault; /* REQUEST_*; 0: none */
    char *fault_text;
};

struct row_request_input {
    Jsonb *filter; /* NULL: none, as all */
    ArrayType *sort;
    Jsonb *after;
};

/*
 * Reads the request, without its values. The members up to `limit` are set by the caller, the
 * others zeroed. Returns false after a fault.
 */
extern bool row_request_read(struct row_request *request, const struct row_request_input *input);

/*
 * Reads the values by the input functions of the columns' types: call it as the table's owner, with
 * the settings of the decoder. Returns false after a fault.
 */
extern bool row_request_convert(struct row_request *request);

/*
 * The next column behind this one that a client may compare in this request as the query does, 0 if
 * there is none: one of filter_columns, or of the key.
 */
extern AttrNumber row_request_comparable(const struct row_request *request, AttrNumber after);

/* query.c */

/* The values of a column that the query finds. */
struct row_values {
    const char *column; /* an expression */
    const char *equality;
    Oid type;
    bool is_overlap; /* of arrays: the column contains one of the values */
    bool or_null;
    int count;
    Datum *values;
    int scan; /* with a scan for each value, the number of its relation in the query; else 0 */
};

/* A statement and its parameters. */
struct row_query {
    StringInfoData text;
    int parameter_count;
    int room;
    Oid *types;
    Datum *values;
};

/* What a query reads. */
struct row_shape {
    Relation relation;
    const struct row_request *request;
    int value_count;
    struct row_values *values;
    const bool *picked; /* the columns of the result, by attribute number - 1 */
    bool is_ordered;    /* in the order of the request, and at most `limit` rows */
    bool is_merged;     /* a scan for each value of some columns, merged */
    int64 limit;
};

/* One of consecutive ranges in the order: equal values in the first columns, then one bound. */
struct row_piece {
    int prefix; /* number of columns; -1: all rows */
    int bound;  /* a btree strategy, or BOUND_* */
};

#define BOUND_NULL 0
#define BOUND_NOT_NULL (-1)

/*
 * Returns the ranges behind the values `after` of the order, or one range with all rows if the
 * request has none. The btree index of the order serves each.
 */
extern struct row_piece *row_pieces(const struct row_request *request, int *ret_count);

/*
 * Chooses the columns that get a scan for each value, so that an index with these columns before
 * those of the order serves it: at most MERGED_SCANS_MAX scans. Returns false if there are none.
 */
#define MERGED_SCANS_MAX 256
extern bool row_shape_merge(struct row_shape *shape);

/* One scan for all values again. */
extern void row_shape_join(struct row_shape *shape);

/* Writes the statement, in the current memory context. */
extern void row_query_build(struct row_query *query, const struct row_shape *shape,
                            const struct row_piece *piece);

extern const char *row_column(Form_pg_attribute attribute, Oid base);
extern const char *row_operator(Oid operator);

/* statement.c */

struct row_statement;

/*
 * Returns a statement with this text, which the current user has used with this relation before, or
 * a new one. *ret_statement: NULL if it is new. Then call row_statement_release in any case, except
 * after an error with a new one. Meanwhile the planner may run code that calls these functions.
 * Requires a connection to SPI, and a lock on the relation.
 */
extern SPIPlanPtr row_statement_acquire(const struct row_query *query, Oid relid,
                                        struct row_statement **ret_statement);

/* Keeps the statement for later. Portals do not need it any more. */
extern void row_statement_release(const struct row_query *query, Oid relid, SPIPlanPtr plan,
                                  struct row_statement *statement);

/* recipient.c */

struct decoder;
struct image;
struct plan;

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

/*
 * Decides who may read rows. The first is true when all rows of the rule are addressed to the user,
 * or when columns determine which ones: then the second decides for each row, by its targets and
 * only_when.
 */
extern bool recipient_may_read(const struct recipient *recipient, const struct rule *rule);
extern bool recipient_may_read_row(const struct recipient *recipient, struct decoder *decoder,
                                   const struct plan *plan, const struct image *row);

/* scan.c */

struct row_scan {
    const struct rule *rule;
    Relation relation; /* the rule's relation, locked */
    const List *tree;  /* the result of tree_check */
    const struct recipient *recipient;
    struct row_request *request;
    int max_rows;
    int64 max_bytes; /* bytes of JSON */
    void (*put)(void *arg, struct fragment row);
    void *arg;
    /* Results. */
    int64 count;  /* of a count */
    bool is_rest; /* a limit cut the rows */
};

struct reading;

/*
 * Prepares the scan, and reads the values of its request. Returns NULL after a fault of the
 * request.
 *
 * Code of the table's owner may run during the scan: in expressions of indexes and constraints,
 * which the planner evaluates, and in only_when. So everything runs as the owner, read-only and
 * security-restricted. Settings that such code changes are reverted. The settings of the decoder
 * must be in effect. Requires a connection to SPI.
 */
extern struct reading *row_scan_begin(struct row_scan *scan);

/*
 * Calls put(arg, row) for each row in the order of the request, with the JSON that payload.after
 * would contain, or counts the rows. Reads under the active snapshot. Without a limit in the
 * request, raises an error, before the first row, when there are more rows or bytes than allowed.
 * With a limit, ends before the row that exceeds the bytes, but not before the first.
 */
extern void row_scan_run(struct reading *reading);

#endif
