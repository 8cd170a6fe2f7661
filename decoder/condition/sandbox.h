/*
 * sandbox.h: runs expressions of table owners with limits on time and memory.
 *
 * After an error, decoding restarts at the same row. An evaluation that never ends, or that uses
 * all memory, would stop the slot permanently.
 */
#ifndef CLAIRON_BOUNDS_H
#define CLAIRON_BOUNDS_H

#include "postgres.h"

#define CONDITION_TIMEOUT_DEFAULT 100 /* ms */
#define CONDITION_TIMEOUT_CEILING 60000

/* The memory that one run may add to the process. */
#define SANDBOX_MEMORY (64 * 1024 * 1024)

/* The memory limit for all prepared expressions of one owner. */
#define SANDBOX_KEPT_MEMORY (64 * 1024 * 1024)

struct sandbox;
struct tracked_memory;

/* Allocated in the current memory context. */
extern struct sandbox *sandbox_new(int timeout_ms);

/*
 * Runs work(arg) as `user`, in a security-restricted and read-only subtransaction, with the
 * snapshot of the decoded change. Returns false when work() raised an error, or exceeded the
 * timeout or SANDBOX_MEMORY; *ret_reason is then the message, in the current memory context. The
 * timeout is CPU time, so that load of the machine does not deny rows; ten times that in real time
 * also ends a run. Like guard_run, it re-throws errors that end a session.
 */
extern bool sandbox_run(struct sandbox *sandbox, Oid user, void (*work)(void *arg), void *arg,
                        char **ret_reason);

/*
 * Tracks the memory of a context and its children for `owner`, until the context is reset or
 * deleted. The context must be a descendant of the sandbox's context.
 */
extern struct tracked_memory *sandbox_track(struct sandbox *sandbox, Oid owner,
                                            MemoryContext context);

/*
 * Updates the tracked size of the context. Returns false when the owner's tracked memory exceeds
 * SANDBOX_KEPT_MEMORY; the caller then deletes contexts of the owner.
 */
extern bool sandbox_recount(struct tracked_memory *kept);

/* The owner of the last failed sandbox_recount since the previous call, or InvalidOid. */
extern Oid sandbox_over_budget_owner(struct sandbox *sandbox);

#endif
