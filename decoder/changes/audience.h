/* audience.h: the targets of a row. All lists are in the current memory context. */
#ifndef CLAIRON_AUDIENCE_H
#define CLAIRON_AUDIENCE_H

#include "plan/plan.h"

/* True when the WAL does not contain a target column. */
extern bool audience_lacks_column(const struct plan *plan, const struct image *image);

/* The targets in the image's columns. The image contains them: see audience_lacks_column. */
extern struct target_list *audience_targets(const struct plan *plan, const struct image *image);

/* The targets of `a` that are, or are not, in `b`; in the order of `a`. */
extern struct target_list *audience_intersection(const struct target_list *a,
                                                 const struct target_list *b);
extern struct target_list *audience_difference(const struct target_list *a,
                                               const struct target_list *b);

#endif
