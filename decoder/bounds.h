/*
 * bounds.h: run what table owners wrote, for a bounded time and in bounded memory.
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

struct bounds;

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

#endif
