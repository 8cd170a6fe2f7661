/*
 * condition.h: only_when, a boolean expression on one row.
 *
 * It is stored as SQL text in which $n stands for a column, by number: renames
 * follow, constants are what they were when the rule was set, and no PostgreSQL
 * version's internal form is kept.
 */
#ifndef CLAIRON_CONDITION_H
#define CLAIRON_CONDITION_H

#include "postgres.h"

#include "utils/rel.h"

struct sandbox;
struct condition;
struct image;
struct rule;

enum condition_result {
    CONDITION_FALSE, /* false or NULL */
    CONDITION_TRUE,
    CONDITION_UNKNOWN, /* the image does not hold a column that it reads */
    CONDITION_FAILED   /* evaluating it raised an error, or reached a limit of sandbox.h */
};

/*
 * Makes a rule's condition ready, in the current memory context; `map` tells for
 * each column of the relation that the rule names its index in `decoded`, -1 for
 * none. `owner`, of that relation, is who may use what it names, whoever reads.
 * One that cannot be made any more, as after a change of a type, always fails.
 */
extern struct condition *condition_new(struct sandbox *sandbox, const struct rule *rule,
                                       const int *map, int map_count, Relation decoded, Oid owner);

/* Who is charged with its memory. */
extern Oid condition_owner(const struct condition *condition);

/* Judges one image. Only the fault of a failure is allocated in the current memory context. */
extern enum condition_result condition_evaluate(struct condition *condition,
                                                const struct image *image);

/* After CONDITION_FAILED: why; valid until the next answer or change. */
extern const char *condition_error(const struct condition *condition);

#endif
