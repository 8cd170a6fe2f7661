/* direct_private.h: declarations that the files of relay/store/direct share. */
#ifndef CLAIRON_STORE_DIRECT_PRIVATE_H
#define CLAIRON_STORE_DIRECT_PRIVATE_H

#include "store/direct/direct_request.h"
#include "store/direct/locate.h"
#include "store/servers/topology.h"
#include "store/shards/store_private.h"

#define SCRIPT_HASH_TEXT 40

struct direct_change;

struct direct_shard {
    char prefix[STORE_PREFIX_MAX];
    char stream[STORE_KEY_MAX];
    char errors[STORE_KEY_MAX];
    char none[STORE_KEY_MAX];
};

struct direct_connection {
    struct node *node; /* NULL: not connected */
    bool has_redrive;  /* the server has loaded redrive.lua */
};

struct direct {
    const struct config *config;
    struct locator locator;
    struct direct_shard shards[STORE_SHARDS_MAX];
    unsigned shard_count;
    bool is_missing[STORE_SHARDS_MAX];   /* in a cluster: direct_reach did not reach the shard */
    char missing_list[SHARD_LIST_MAX];   /* the result of direct_missing */
    bool is_scattered[STORE_SHARDS_MAX]; /* the shard is missing because of direct_check_place */
    struct slots_node unreachable;       /* ignored by direct_check_place; host "": none */
    struct direct_connection connections[STORE_SHARDS_MAX]; /* by connection (topology.h) */
    char redrive_hash[SCRIPT_HASH_TEXT + 1];
    struct direct_change *queue; /* queued changes whose replies were not read yet */
    struct direct_change **queue_end;
    struct direct_changes changes;
    struct trace trace;
    struct redisReply *completed; /* the reply of direct_complete; NULL: none */
    struct delivery delivery;
    char error[DIRECT_ERROR_MAX];
};

/* Sets direct->error. Returns RC_IO. */
enum rc direct_fail(struct direct *direct, const char *error);

struct direct_connection *direct_connection(struct direct *direct, unsigned shard);

/* True if the last request of `node` may succeed later or on another server. */
bool direct_may_retry(const struct direct *direct, const struct node *node);

/* Connects to the shard's server unless connected. RC_AGAIN: a later attempt may succeed. */
MUST_CHECK enum rc direct_connect(struct direct *direct, unsigned shard);

/*
 * direct_place.c: RC_AGAIN if other nodes have keys of the shard, RC_IO if it could not be checked.
 * `node` is connected to the shard's server, `host`.
 */
MUST_CHECK enum rc direct_check_place(struct direct *direct, unsigned shard, struct node *node,
                                      const char *host);

/*
 * In a cluster: connects to the servers of the shards that are missing, and updates is_missing.
 * `waits`: waits several seconds for a failover. RC_IO: no node replies, or one rejects the
 * connection.
 */
MUST_CHECK enum rc direct_reach(struct direct *direct, bool waits);

/* Like direct_request, but ignores the queue. */
const struct redisReply *direct_run(struct direct *direct, unsigned shard,
                                    const struct node_command *command);

/*
 * Sends a redrive or a drop without waiting for its reply, so that all changes of a page take one
 * round trip. Frees the command. direct_read_changes repeats it if it could not be sent.
 */
void direct_queue_change(struct direct *direct, unsigned shard, bool is_redrive,
                         struct node_command command);
/* Reads the replies of all queued changes. RC_IO: direct->error is the first error. */
MUST_CHECK enum rc direct_read_changes(struct direct *direct);
void direct_free_queue(struct direct *direct);

/* Loads redrive.lua into the shard's server unless it is loaded. Requires an empty queue. */
MUST_CHECK enum rc direct_load_redrive(struct direct *direct, unsigned shard);

#endif
