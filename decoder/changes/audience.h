/* audience.h: recipients of a row under a rule. All lists are in the current memory context. */
#ifndef CLAIRON_AUDIENCE_H
#define CLAIRON_AUDIENCE_H

#include "plan/plan.h"

/*
 * The next three functions deny a row that cannot be evaluated. A denial is counted and logged as a
 * warning.
 */

/* True when the rule denies all rows, because one of its columns was dropped. */
extern bool audience_is_denied(struct decoder *decoder, const struct plan *plan);

/*
 * Reads the targets in the image's columns. Returns false when the row is denied. A row with too
 * many targets has no recipients: the list is empty, and *ret_too_many is true.
 */
extern bool audience_read_targets(struct decoder *decoder, const struct plan *plan,
                                  const struct image *image, struct target_list **ret_targets,
                                  bool *ret_too_many);

/* Evaluates the rule's only_when, which must exist. Returns false when the row is denied. */
extern bool audience_meets_condition(struct decoder *decoder, const struct plan *plan,
                                     const struct image *image, bool *ret_met);

/* Returns the targets in `a` that are, or are not, in `b`, in the order of `a`. */
extern struct target_list *audience_intersection(const struct target_list *a,
                                                 const struct target_list *b);
extern struct target_list *audience_difference(const struct target_list *a,
                                               const struct target_list *b);

#endif
