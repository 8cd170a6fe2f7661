/*
 * sandbox.h: run what table owners wrote, for a bounded time and in bounded memory.
 *
 * Decoding meets the same row again after an error, so an evaluation that never ends, or that takes
 * all memory, would stop the slot for good.
 */
#ifndef CLAIRON_BOUNDS_H
#define CLAIRON_BOUNDS_H

#include "postgres.h"

#define CONDITION_TIMEOUT_DEFAULT 100 /* ms */
#define CONDITION_TIMEOUT_CEILING 60000

/* What one run may add to the memory of the process. */
#define BOUNDS_MEMORY (64 * 1024 * 1024)

/* What the prepared expressions of one owner may keep. */
#define BOUNDS_KEPT_MEMORY (64 * 1024 * 1024)

struct bounds;
struct kept_memory;

/* Kept in the current memory context. */
extern struct bounds *bounds_new(int timeout_ms);

/*
 * Runs work(arg) as `user`, in a security-restricted and read-only subtransaction, with the
 * snapshot of the decoded change. False when it raised an error, took longer than the timeout or
 * more than BOUNDS_MEMORY; then *ret_reason says so, in the current memory context. The timeout
 * is CPU time, so that a busy machine denies nothing; ten times as much real time ends a run too.
 * Errors by which the server ends the work of a session are raised again, as by guard_run.
 */
extern bool bounds_run(struct bounds *bounds, Oid user, void (*work)(void *arg), void *arg,
                       char **ret_reason);

/*
 * Counts the memory of a context and its children as kept for `owner`, until the context is reset
 * or deleted. The context must be a descendant of the one that holds the bounds.
 */
extern struct kept_memory *bounds_keep(struct bounds *bounds, Oid owner, MemoryContext context);

/*
 * Counts the context's memory as it is now. False when its owner's kept memory exceeds
 * BOUNDS_KEPT_MEMORY; deleting contexts of the owner ends that.
 */
extern bool bounds_recount(struct kept_memory *kept);

/* The owner for whom bounds_recount last returned false since the last call; else InvalidOid. */
extern Oid bounds_overdrawn_owner(struct bounds *bounds);

#endif
