/*
 * condition.h: only_when, a boolean expression on one row.
 *
 * The expression is stored as SQL text in which $n refers to a column by number. So the stored form
 * survives renames of columns (for those of other objects, see sql/renames.c), keeps the values
 * that constants had when the rule was set, and does not depend on the internal format of a
 * PostgreSQL version.
 */
#ifndef CLAIRON_CONDITION_H
#define CLAIRON_CONDITION_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "utils/array.h"
#include "utils/rel.h"

#include "base/account.h"

struct sandbox;
struct condition;
struct image;
struct objects;
struct rule;

enum condition_result {
    CONDITION_FALSE, /* false or NULL */
    CONDITION_TRUE,
    CONDITION_UNKNOWN, /* the image lacks a column of the expression */
    CONDITION_FAILED   /* an error, or a limit of sandbox.h */
};

struct condition_row;

/* The row that conditions on relations like this one evaluate, in the current memory context. */
extern struct condition_row *condition_row_new(Relation decoded);

/*
 * Prepares a rule's condition, below the current memory context. `map` contains, for each column of
 * the rule's relation, its index in `decoded`, or -1. The condition runs with the privileges of
 * `owner`, the relation's owner, not of the decoding role. A condition that can no longer be
 * prepared, for example after a type was changed, always fails. The objects that it uses are added
 * to `objects`, unless that is NULL.
 */
extern struct condition *condition_new(struct sandbox *sandbox, const struct rule *rule,
                                       const int *map, int map_count, Relation decoded,
                                       struct condition_row *row, struct account *account,
                                       struct objects *objects);
extern void condition_free(struct condition *condition);

/*
 * True for a condition that is valid until its rule, its columns or the objects of condition_new
 * change. Any other condition is valid only for the catalog state in which it was prepared.
 */
extern bool condition_is_lasting(const struct condition *condition);

/*
 * True when an account of the owner is used up: of its memory, so that the condition could not be
 * prepared, or of its time, at the last evaluation or preparation.
 */
extern bool condition_is_over(const struct condition *condition, enum account_kind *ret_kind);

/*
 * Evaluates the condition for one image. Only the error message is allocated in the current memory
 * context.
 */
extern enum condition_result condition_evaluate(struct condition *condition,
                                                const struct image *image);

/* Returns the error message after CONDITION_FAILED; valid until the next evaluation or change. */
extern const char *condition_error(const struct condition *condition);

/* condition_parse.c */

/*
 * Checks an analyzed expression before any part of it runs: immutable C functions only, no value
 * that may contain a domain value, no unbounded time or memory.
 */
extern void condition_check(Node *expression);

/* Returns the single expression of `SELECT text`, which must contain nothing else, not analyzed. */
extern Node *condition_parse_raw(const char *text);

/*
 * Parses the stored form for the current columns of the relation, as its owner. Each column is a
 * Param with its number, so that the expression remains valid when the relation changes.
 */
extern Node *condition_numbered(Oid relid, const char *stored, ArrayType *origins,
                                ArrayType *numbers);

/* Returns the stored form of that expression, with the current names of the objects in it. */
extern char *condition_text(Oid relid, Node *numbered);

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
