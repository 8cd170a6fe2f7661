/*
 * guard.h: runs code of extensions, recovers from its errors, and limits the caches that it fills.
 *
 * An error while decoding stops a slot, and the next reader fails with the same error. A single
 * value that its output function rejects would stop the slot permanently.
 */
#ifndef CLAIRON_GUARD_H
#define CLAIRON_GUARD_H

#include "postgres.h"

/*
 * Runs work(arg) in a subtransaction, within a transaction. Returns false when work() raised an
 * error; *ret_reason is then the error's message and detail, in the current memory context. Errors
 * that report a shutdown or a lack of resources are re-thrown: a later attempt may succeed.
 * Restores memory context and resource owner in both cases.
 */
extern bool guard_run(void (*work)(void *arg), void *arg, char **ret_reason);

/*
 * Like guard_run, but cheaper, because it starts no subtransaction. Use it only for work whose
 * errors leak no resources, or only resources of the decoded transaction, which always aborts.
 */
extern bool guard_try(void (*work)(void *arg), void *arg, char **ret_reason);

/*
 * Call this before code that may look up `lookups` objects which a value names, such as the OIDs in
 * a regclass[]. PostgreSQL keeps the result of each lookup until the object changes, which never
 * happens to an object that does not exist. So its catalog caches are emptied from time to time.
 */
extern void guard_catalog_caches(Size lookups);

#endif
