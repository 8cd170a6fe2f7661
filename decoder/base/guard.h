/*
 * guard.h: run what an extension's code may break, and go on.
 *
 * An error while decoding stops a slot, and reading on meets it again: one value
 * that its type cannot print would stop it for good.
 */
#ifndef CLAIRON_GUARD_H
#define CLAIRON_GUARD_H

#include "postgres.h"

/*
 * Runs work(arg) in a subtransaction. False when it raised an error; then
 * *ret_reason is its message, in the current memory context. Errors that say
 * that the server is stopping, or short of something, are raised again: with
 * them the same work may well succeed later. Memory contexts and resources are
 * as before in either case. Inside a transaction only.
 */
extern bool guard_run(void (*work)(void *arg), void *arg, char **ret_reason);

/*
 * The same without a subtransaction, at little cost: for work whose errors leave nothing behind, or
 * what goes with the decoded transaction, which always ends in an abort.
 */
extern bool guard_try(void (*work)(void *arg), void *arg, char **ret_reason);

#endif
