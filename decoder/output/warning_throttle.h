/* warning_throttle.h: warnings about denied or incomplete changes, at powers of ten. */
#ifndef CLAIRON_WARNING_THROTTLE_H
#define CLAIRON_WARNING_THROTTLE_H

#include "postgres.h"

struct decoder;

extern void warning_setup(struct decoder *decoder);

/*
 * Counts one event, and warns at the first, tenth, hundredth .. event of this kind. The string
 * literal `what` identifies the kind. `seed` is the seed of a rule's plan, or 0.
 */
extern void warning_count(struct decoder *decoder, uint64 seed, const char *subject,
                          const char *what);

/* Like warning_count, but counts immediately, even if the transaction may still be rolled back. */
extern void warning_count_now(struct decoder *decoder, uint64 seed, const char *subject,
                              const char *what);

/*
 * Like warning_count, but a warning includes the reason of its event; in a streamed transaction,
 * of the first such event in its block.
 */
extern void warning_count_reason(struct decoder *decoder, uint64 seed, const char *subject,
                                 const char *what, const char *reason);

/* A new block starts in the spool. */
extern void warning_begin_block(struct decoder *decoder);
/* Spools the counts since the last call: they belong to the current subtransaction. */
extern void warning_spool_counts(struct decoder *decoder);
/* Counts changes with the warning of a spool record. */
extern void warning_replay(struct decoder *decoder, const char *body, uint32 changes);

#endif
