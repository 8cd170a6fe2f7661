/* direct_private.h: shared by the files of a direct connection. */
#ifndef CLAIRON_STORE_DIRECT_PRIVATE_H
#define CLAIRON_STORE_DIRECT_PRIVATE_H

#include "store/connection/topology.h"
#include "store/direct/direct_request.h"
#include "store/shards/store_private.h"

#define SCRIPT_HASH_TEXT 40

struct redisContext;

struct direct {
    struct redisContext *servers[STORE_SHARDS_MAX];
    char redrive_hash[STORE_SHARDS_MAX][SCRIPT_HASH_TEXT + 1]; /* "": not loaded there yet */
    unsigned server_count;                                     /* connected */
    struct topology topology;
    unsigned at; /* the server of the next request */
    unsigned shard_count;
    struct redisReply *reply; /* the last one */
    unsigned queued;          /* changes sent to direct->at without a reply yet */
    struct direct_changes changes;
    struct trace trace;
    struct delivery delivery;
    char prefix[STORE_PREFIX_MAX - 8]; /* of all shards */
    char errors_key[STORE_KEY_MAX];
    char error[DIRECT_ERROR_MAX];
};

/*
 * Sends a redrive or a drop without waiting for its reply: the changes of a page take one round
 * trip. RC_IO: direct->error has the reason.
 */
MUST_CHECK enum rc direct_queue_change(struct direct *direct, bool is_redrive, int argc,
                                       const char **argv, const size_t *lens);
/*
 * Reads the replies of all queued changes, even after an error reply, so that replies stay in step
 * with commands. direct_request does so first. RC_IO: direct->error has the first error.
 */
MUST_CHECK enum rc direct_read_changes(struct direct *direct);

/* Directs the next requests to the shard's server; returns its key prefix and stream. */
void direct_select_shard(struct direct *direct, unsigned shard, char ret_prefix[STORE_PREFIX_MAX],
                         char ret_stream[STORE_KEY_MAX]);

#endif
