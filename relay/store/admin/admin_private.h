/* admin_private.h: declarations that the files of relay/store/admin share. */
#ifndef CLAIRON_STORE_ADMIN_PRIVATE_H
#define CLAIRON_STORE_ADMIN_PRIVATE_H

#include "store/command.h"
#include "store/admin.h"
#include "store/scripts/scripts.h"
#include "store/servers/topology.h"
#include "store/shards/multi.h"

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
    size_t changes_bytes;
    char change_error[COMMAND_ERROR_MAX]; /* the first error of a change; "": none */
    struct command_changes changed;
    struct audit_act *acts; /* acts that are not stored yet, oldest first */
    unsigned act_count;     /* including those that are stored */
    /* stores the acts, or prints an error; NULL: there were none */
    void (*close_audit)(struct command *command);
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

/* ---- dead letters. Pure: no I/O, no clock */

/* True if the notification's data are not in the entry, but in KEY_ERROR_PARTS or another entry. */
bool error_entry_lacks_data(const struct error_entry *entry);

/* Adds the command that reads the data of a notification from KEY_ERROR_PARTS. */
void error_parts_arguments(struct arguments *arguments, const char *prefix, struct bytes id,
                           char ret_key[STORE_KEY_MAX]);

/* Sets data and route from the reply to that command, if it has them. */
void error_entry_add_parts(struct error_entry *entry, const struct redisReply *parts);

/* Owns route and data. Free it with redrive_free. */
struct redrive {
    unsigned char *route;
    size_t route_len;
    unsigned char *data;
    size_t data_len;
    int64_t expires_ms; /* new expiration; 0: does not expire */
    char expires[24];   /* expires_ms as a string */
    char large[24];     /* bytes of route and data if they are too large for a script, or "" */
    char entry[ENTRY_ID_TEXT_MAX];
};

/*
 * Renews the lifetime of a notification, in the route and in the JSON document: it is as long as
 * the original lifetime, and starts at `now_us`. An expired notification without an expiration
 * belonged to an open-ended audience, whose lifetime is one day. RC_BAD: invalid route.
 */
MUST_CHECK enum rc redrive_prepare(const struct error_entry *entry, int64_t now_us,
                                   struct redrive *ret_redrive);
void redrive_free(struct redrive *redrive);

/*
 * Returns the arguments of redrive.lua, with the users: none are all users of the entry. The caller
 * frees them. They contain all data, even large data.
 */
struct kept_arguments *redrive_arguments(const struct shard *shard, const struct error_entry *entry,
                                         const struct redrive *redrive, const char *const *users,
                                         size_t count);

/* Adds the KEYS and ARGV of error_entry.lua. `act`: "read" or "drop". */
void error_entry_arguments(struct arguments *arguments, const struct shard *shard,
                           struct entry_id entry, const char *act);

/*
 * Redrives or drops a dead letter. The arguments, of redrive.lua or error_entry.lua, must live
 * until `done`, whose `rc` is RC_AGAIN if the change may be repeated, RC_IO if the store rejected
 * it, and RC_BAD if the reply is invalid. Returns RC_AGAIN if nothing could be sent.
 */
MUST_CHECK enum rc error_change_send(struct shard *shard, const struct kept_arguments *kept,
                                     bool is_drop, store_error_changed *done, void *ctx);

/* ---- acts of operators */

#define AUDIT_ID_MAX 64

/* An act, and where it is in a queue (audit.c). */
struct audit_act {
    struct audit_act *next;
    char id[AUDIT_ID_MAX];
    char at[24]; /* Unix time in ms */
    char *actor, *act, *before, *user, *after;
    char actor_hash[AUDIT_HASH_TEXT + 1];
    char user_hash[AUDIT_HASH_TEXT + 1]; /* "": no user */
};

/* ---- a notification and a user. Pure: no I/O */

/* Reads the facts in a reply of trace.lua; NULL, or without facts: none. */
void user_facts_read(const struct redisReply *reply, struct user_facts *ret_facts);

/*
 * Finds the gap that covers the notification. If the store does not have the notification any more,
 * the time in its id is compared: then the trace is not empty. `shard`: of the notification;
 * `own`: of the user.
 */
void user_facts_find_gap(struct trace *trace, const char *id, unsigned shard, unsigned own);

/* ---- pending notifications */

/* A result of drop.lua: the number of pairs that ended, or one of these. */
enum { DROP_NOT_PENDING = -1, DROP_UNKNOWN = -2 };

/* Adds the KEYS and ARGV of drop.lua, except the ids. */
void drop_arguments(const struct shard *shard, struct arguments *arguments);

/* ---- console replies of several shards. Pure: no I/O */

/*
 * Merges replies of overview.lua, user.lua, errors.lua or latest.lua, by shard; an empty text is a
 * shard without a reply. The result has the same form, and the caller frees it. Without shard 0,
 * `relays` of an overview or a user is null. NULL: a reply is invalid, or there is none.
 */
char *admin_merge(enum store_script script, const struct bytes *texts, size_t count);

#endif
