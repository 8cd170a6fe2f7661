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
#define SANDBOX_MEMORY (64 * 1024 * 1024)

/* What the prepared expressions of one owner may keep. */
#define SANDBOX_KEPT_MEMORY (64 * 1024 * 1024)

struct sandbox;
struct tracked_memory;

/* Kept in the current memory context. */
extern struct sandbox *sandbox_new(int timeout_ms);

/*
 * Runs work(arg) as `user`, in a security-restricted and read-only subtransaction, with the
 * snapshot of the decoded change. False when it raised an error, took longer than the timeout or
 * more than SANDBOX_MEMORY; then *ret_reason says so, in the current memory context. The timeout
 * is CPU time, so that a busy machine denies nothing; ten times as much real time ends a run too.
 * Errors by which the server ends the work of a session are raised again, as by guard_run.
 */
extern bool sandbox_run(struct sandbox *sandbox, Oid user, void (*work)(void *arg), void *arg,
                        char **ret_reason);

/*
 * Counts the memory of a context and its children as kept for `owner`, until the context is reset
 * or deleted. The context must be a descendant of the one that holds the bounds.
 */
extern struct tracked_memory *sandbox_track(struct sandbox *sandbox, Oid owner,
                                            MemoryContext context);

/*
 * Counts the context's memory as it is now. False when its owner's kept memory exceeds
 * SANDBOX_KEPT_MEMORY; deleting contexts of the owner ends that.
 */
extern bool sandbox_recount(struct tracked_memory *kept);

/* The owner for whom sandbox_recount last returned false since the last call; else InvalidOid. */
extern Oid sandbox_overdrawn_owner(struct sandbox *sandbox);

#endif
