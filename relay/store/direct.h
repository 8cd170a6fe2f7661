/* direct.h: asks the store and waits for the answer, for commands that run and end. */
#ifndef CLAIRON_STORE_DIRECT_H
#define CLAIRON_STORE_DIRECT_H

#include "base/config.h"
#include "store/error_entry.h"
#include "store/trace.h"

#define DIRECT_ERROR_MAX 512

struct direct;

/* NULL: `error` holds one sentence. Free it with direct_close. */
struct direct *direct_open(const struct config *config, char error[DIRECT_ERROR_MAX]);
void direct_close(struct direct *direct); /* accepts NULL */
/* Why the last question was not answered. */
const char *direct_error(const struct direct *direct);

/*
 * Walks the error log from `since` on, oldest first, until a visit returns false; with several
 * servers one after the other. An entry lives as long as the visit, and is redriven and dropped
 * within it.
 */
typedef bool direct_visit(void *ctx, const struct error_entry *entry);
MUST_CHECK enum rc direct_errors(struct direct *direct, struct entry_id since, direct_visit *visit,
                                 void *ctx);
/* How many entries there are, of all servers; -1: unknown. */
long long direct_error_count(struct direct *direct);

/*
 * Both are sent at once and counted when their page of the log ends, where direct_errors fails if
 * one was refused. An entry that is gone meanwhile counts as nothing.
 */

/*
 * Its users wait for the notification again, from attempt 0, with its lifetime renewed; the entry
 * goes. `users` as they stand in the entry. RC_BAD: direct_can_redrive is false; nothing was done.
 */
MUST_CHECK enum rc direct_redrive(struct direct *direct, const struct error_entry *entry,
                                  const char *const *users, size_t count);
MUST_CHECK enum rc direct_drop(struct direct *direct, struct entry_id entry);
/* Whether the entry holds what a redrive takes. */
bool direct_can_redrive(const struct direct *direct, const struct error_entry *entry);

/* What the redrives, or the drops, of this connection did so far. */
struct direct_changes {
    bool is_redrive;
    long long entries;
    long long users; /* who wait again */
};
const struct direct_changes *direct_changed(const struct direct *direct);

/* What is known of a message; `id`: a UUID in lower case. It lives until the next question. */
MUST_CHECK enum rc direct_trace(struct direct *direct, const char *id,
                                const struct trace **ret_trace);

#endif
