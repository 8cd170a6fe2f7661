/* direct.h: blocking requests to the store, for CLI commands. */
#ifndef CLAIRON_STORE_DIRECT_H
#define CLAIRON_STORE_DIRECT_H

#include "base/config.h"
#include "store/error_entry.h"
#include "store/trace.h"

#define DIRECT_ERROR_MAX 512
#define DIRECT_NODE_MAX 48 /* ID of a node */

struct direct;

/*
 * In a cluster, shards may be unavailable (direct_missing). NULL: `error` is set. `config` must
 * outlive the result. Free it with direct_close.
 */
struct direct *direct_open(const struct config *config, char error[DIRECT_ERROR_MAX]);
void direct_close(struct direct *direct); /* accepts NULL */
/* Returns the error of the last failed request. */
const char *direct_error(const struct direct *direct);
/*
 * Returns the shards of a cluster that the last request could not reach, such as "3,7"; "": none.
 * Valid until the next call.
 */
const char *direct_missing(struct direct *direct);

/*
 * Visits the entries of all available shards' error logs from `since`, oldest first, until a visit
 * returns false. In a cluster, waits several seconds for missing shards first. An entry is valid
 * during its visit. Only a visit may call direct_redrive and direct_drop.
 */
typedef bool direct_visit(void *ctx, unsigned shard, const struct error_entry *entry);
MUST_CHECK enum rc direct_errors(struct direct *direct, struct entry_id since, direct_visit *visit,
                                 void *ctx);
/*
 * If another entry contains the notification's data, sets `data` and `route` of the visited entry.
 * Valid until the next call.
 */
MUST_CHECK enum rc direct_complete(struct direct *direct, unsigned shard,
                                   struct error_entry *entry);
/* Returns the number of error log entries in the available shards, or -1 if it is unknown. */
long long direct_error_count(struct direct *direct);

/*
 * direct_redrive and direct_drop queue a command without waiting for its reply. direct_errors reads
 * the replies after each page of the log, adds them to direct_changed, and fails if a reply is an
 * error. Error log entries that no longer exist are not counted.
 */

/*
 * Sends the notification again to `users`, a subset of the dead letter's users, from attempt 0 and
 * with a renewed lifetime, and removes the dead letter. RC_BAD: direct_can_redrive is false, and
 * nothing was changed.
 */
MUST_CHECK enum rc direct_redrive(struct direct *direct, unsigned shard,
                                  const struct error_entry *entry, const char *const *users,
                                  size_t count);
void direct_drop(struct direct *direct, unsigned shard, struct entry_id entry);
/* True if the dead letter contains all data that a redrive needs. */
bool direct_can_redrive(const struct error_entry *entry);

/* Totals of the redrives and drops of this connection. */
struct direct_changes {
    bool is_redrive;
    long long entries;
    long long users; /* number of users for whom a notification is pending again */
};
const struct direct_changes *direct_changed(const struct direct *direct);

/*
 * Returns the trace of a notification, valid until the next request. `id`: a lower case UUID. Waits
 * several seconds for missing shards unless an available shard has the notification.
 */
MUST_CHECK enum rc direct_trace(struct direct *direct, const char *id,
                                const struct trace **ret_trace);

/*
 * Abandons the keys of a shard on a lost node, `name`: its ID or HOST:PORT. Relays then use the
 * shard, and clients receive a gap. *ret_id: the node's ID.
 */
MUST_CHECK enum rc direct_accept(struct direct *direct, unsigned shard, const char *name,
                                 char ret_id[DIRECT_NODE_MAX]);

#endif
