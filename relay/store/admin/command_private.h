/* command_private.h: declarations that command.c and command_errors.c share. */
#ifndef CLAIRON_STORE_COMMAND_PRIVATE_H
#define CLAIRON_STORE_COMMAND_PRIVATE_H

#include "store/command.h"
#include "store/servers/shard_list.h"
#include "store/shards/store_private.h"

#define COMMAND_RETRY_US 15000000 /* a failover takes several seconds */

struct command_change;

struct command {
    struct ev_loop *loop;
    struct store *store;
    struct stats stats; /* unused, but the store counts */
    bool has_failed[STORE_SHARDS_MAX];
    bool is_missing[STORE_SHARDS_MAX]; /* in a cluster: command_reach did not reach the shard */
    bool is_hopeless;                  /* waiting is of no use */
    char missing_list[SHARD_LIST_MAX]; /* the result of command_missing */
    struct command_change *changes;    /* in flight, or to be repeated */
    struct command_change **changes_end;
    unsigned changes_in_flight;
    char change_error[COMMAND_ERROR_MAX]; /* the first error of a change; "": none */
    struct command_changes changed;
    struct redisReply *completed; /* the reply of command_complete; NULL: none */
    char error[COMMAND_ERROR_MAX];
};

/* Sets command->error. Returns RC_IO. */
enum rc command_fail(struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* Runs the loop once, at most for a second. */
void command_run(struct command *command);

/*
 * Waits until the shard may be used or, if `any_keys`, its node replies. RC_IO: not before
 * `end_us`, or waiting is of no use; command->error is the reason.
 */
MUST_CHECK enum rc command_wait(struct command *command, unsigned shard, bool any_keys,
                                int64_t end_us);

/*
 * Waits for the shards, and updates is_missing. `waits`: for several seconds, for a failover.
 * RC_IO: no node replies, or one rejects the connection.
 */
MUST_CHECK enum rc command_reach(struct command *command, bool waits);

struct command_call {
    int script; /* -1: `argv` is a command; otherwise its arguments, of which one is a key */
    int argc;
    const char **argv;
    bool any_keys; /* the node may have only some of the shard's keys */
};
/* Like command_request. */
struct redisReply *command_call(struct command *command, unsigned shard,
                                const struct command_call *call);

/* True if the request with this error may succeed later: the connection is then restarted. */
bool command_may_repeat(struct shard *shard, const char *error);

void command_free_changes(struct command *command);

#endif
