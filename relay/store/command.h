/*
 * command.h: the store for commands. Each call runs the event loop until the store has replied.
 *
 * A command connects as a relay does, but changes only what it requests: it prepares no shard, runs
 * no maintenance, and does not count as a relay.
 */
#ifndef CLAIRON_STORE_COMMAND_H
#define CLAIRON_STORE_COMMAND_H

#include "base/config.h"
#include "store/admin.h"

#define COMMAND_ERROR_MAX 1024
#define COMMAND_NODE_MAX 48 /* ID of a node */

struct command;
struct redisReply;

/*
 * Connects to all shards. In a cluster, shards may be unavailable (command_missing). NULL: `error`
 * is set. `config` must outlive the result. Free it with command_close.
 */
struct command *command_open(const struct config *config, char error[COMMAND_ERROR_MAX]);
void command_close(struct command *command); /* accepts NULL */
/* Returns the error of the last failed call. */
const char *command_error(const struct command *command);
/*
 * Returns the shards of a cluster that the last call could not use, such as "3,7"; "": none. Valid
 * until the next call.
 */
const char *command_missing(struct command *command);
bool command_is_missing(const struct command *command, unsigned shard);

/*
 * Stores an operator's act, in shard 0. If the store does not accept it now, command_close repeats
 * that, and prints an error if it fails.
 */
struct log_act;
void command_audit(struct command *command, const struct log_act *act, int64_t at_us);

/* Returns false if the store has another number of shards, or a request failed (command_error). */
bool command_check_shards(struct command *command);

/*
 * Sends a command to a shard. In a cluster, and with sentinels, waits several seconds for a slot
 * move or a failover. The caller frees the reply. NULL: see command_error.
 */
struct redisReply *command_request(struct command *command, unsigned shard, int argc,
                                   const char **argv);

/*
 * Visits the entries of all available shards' error logs from `since`, oldest first, until a visit
 * returns false. In a cluster, waits several seconds for missing shards first. An entry is valid
 * during its visit. Only a visit may call command_redrive and command_drop.
 */
typedef bool command_visit(void *ctx, unsigned shard, const struct error_entry *entry);
MUST_CHECK enum rc command_errors(struct command *command, struct entry_id since,
                                  command_visit *visit, void *ctx);
/*
 * If another entry contains the notification's data, sets `data` and `route` of the visited entry.
 * Valid until the next call.
 */
MUST_CHECK enum rc command_complete(struct command *command, unsigned shard,
                                    struct error_entry *entry);
/* Returns the number of error log entries in the available shards, or -1 if it is unknown. */
long long command_error_count(struct command *command);

/*
 * command_redrive and command_drop do not wait for the reply. Replies are read after each page of
 * the log, and by command_redrive after several megabytes. They are added to command_changed, and
 * the call fails if one is an error. Error log entries that no longer exist are not counted.
 */

/*
 * Sends the notification again to `users`, a subset of the dead letter's users, from attempt 0 and
 * with a renewed lifetime, and removes the dead letter. RC_BAD: command_can_redrive is false, and
 * nothing was changed.
 */
MUST_CHECK enum rc command_redrive(struct command *command, unsigned shard,
                                   const struct error_entry *entry, const char *const *users,
                                   size_t count);
void command_drop(struct command *command, unsigned shard, struct entry_id entry);
/* True if the dead letter contains all data that a redrive needs. */
bool command_can_redrive(const struct error_entry *entry);

/* Totals of the redrives and drops. */
struct command_changes {
    long long entries; /* entries of the error log, or pending notifications */
    long long users; /* number of users for whom a notification is pending again, or was dropped */
};
const struct command_changes *command_changed(const struct command *command);

/* Pending notifications: those with an id or, if `source` is not NULL, those of a source. */
struct command_selection {
    const char *const *ids; /* lower case UUIDs */
    size_t id_count;
    const char *source; /* metadata.source */
    const char *rule;   /* only of this rule; NULL: of any */
    bool dry_run;       /* change nothing */
};
/* `users` are the pairs of the notification. Returns false to end the selection. */
typedef bool command_visit_pending(void *ctx, const char *id, long long users);
/*
 * Drops the pairs of the selected notifications in all available shards, after their visits, and
 * adds them to command_changed. In a cluster, waits several seconds for missing shards first.
 */
MUST_CHECK enum rc command_drop_pending(struct command *command,
                                        const struct command_selection *selection,
                                        command_visit_pending *visit, void *ctx);

/*
 * Reads the trace of a notification, and calls `found` once if a shard has it. `id`: a lower case
 * UUID. Waits several seconds for missing shards unless an available shard has the notification.
 */
typedef void command_traced(void *ctx, const struct trace *trace);
/* `user`: of store_trace_of_user; NULL: none */
MUST_CHECK enum rc command_trace(struct command *command, const char *id, const char *user,
                                 command_traced *found, void *ctx);

/* Stores a cut-off, and announces it to all relays (store.h). */
MUST_CHECK enum rc command_cut_off(struct command *command, const struct cutoff *cutoff,
                                   const char *user);

/* Like store_forget, for a command; waits several seconds for shards. RC_IO: command_error. */
MUST_CHECK enum rc command_forget(struct command *command, const char *user,
                                  struct store_forgotten *ret_forgotten);

/*
 * Abandons the keys of a shard on a lost node, `name`: its ID or HOST:PORT. Relays then use the
 * shard, and clients receive a gap. *ret_id: the node's ID. Calls `before_change` with it.
 */
typedef void command_before_accept(unsigned shard, const char *id);
MUST_CHECK enum rc command_accept(struct command *command, unsigned shard, const char *name,
                                  command_before_accept *before_change,
                                  char ret_id[COMMAND_NODE_MAX]);

#endif
