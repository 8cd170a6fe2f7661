/*
 * sandbox.h: runs code of extensions and table owners, recovers from its errors, and limits its
 * time and memory.
 *
 * An error while decoding stops a slot, and the next reader fails with the same error. A single
 * value that its output function rejects, or an evaluation that never ends, would stop the slot
 * permanently.
 */
#ifndef CLAIRON_SANDBOX_H
#define CLAIRON_SANDBOX_H

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

#define CONDITION_TIMEOUT_DEFAULT 100 /* ms */
#define CONDITION_TIMEOUT_CEILING 60000

/* The memory that one run may add to the process. */
#define SANDBOX_MEMORY (64 * 1024 * 1024)

/* The CPU time of one evaluation that the owner is not charged. */
#define SANDBOX_FREE_US 1000

enum sandbox_work { SANDBOX_PREPARE, SANDBOX_EVALUATE };

struct account;
struct accounts;
struct sandbox;
struct tracked_memory;

/* Allocated in the current memory context. */
extern struct sandbox *sandbox_new(int timeout_ms, struct accounts *accounts);

/*
 * Runs work(arg) as `user`, in a security-restricted and read-only subtransaction, with the
 * snapshot of the decoded change. Returns false when work() raised an error, or exceeded the
 * timeout or SANDBOX_MEMORY; *ret_reason is then the message, in the current memory context. The
 * timeout is CPU time, so that load of the machine does not deny rows; ten times that in real time
 * also ends a run. Like guard_run, it re-throws errors that end a session. The time of
 * SANDBOX_PREPARE, and that of SANDBOX_EVALUATE above SANDBOX_FREE_US, is charged to the account of
 * the user. When that is empty, nothing runs: *ret_reason is then sandbox_no_time. A trusted owner
 * prepares free of charge.
 */
extern bool sandbox_run(struct sandbox *sandbox, Oid user, enum sandbox_work kind,
                        void (*work)(void *arg), void *arg, char **ret_reason);

extern char sandbox_no_time[];

/* The memory limit for all prepared expressions and plans of one owner. */
extern int64 sandbox_memory_limit(const struct sandbox *sandbox);

/*
 * Tracks the memory of a context, and of its children if `recurse`, for the account, until the
 * context is reset or deleted. The context must be a descendant of the sandbox's context.
 */
extern struct tracked_memory *sandbox_track(struct sandbox *sandbox, struct account *account,
                                            MemoryContext context, bool recurse);

/*
 * Updates the tracked size of the context. Returns false when the owner's tracked memory exceeds
 * the limit of the account; the caller then deletes contexts of the owner.
 */
extern bool sandbox_recount(struct tracked_memory *kept);

/* The owner of the last failed sandbox_recount since the previous call, or InvalidOid. */
extern Oid sandbox_over_budget_owner(struct sandbox *sandbox);

#endif
