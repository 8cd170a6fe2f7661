/* emitter.h: the emitter of a notification, for rules that read it from a column. */
#ifndef CLAIRON_EMITTER_H
#define CLAIRON_EMITTER_H

#include "plan/plan.h"

/* Returns the emitter as JSON, in the current memory context. `image` is NULL without a row. */
extern struct fragment emitter_of_row(struct decoder *decoder, const struct plan *plan,
                                      const struct image *image);

#endif
