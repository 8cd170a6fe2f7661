/* direct_request.h: general blocking requests to the store. */
#ifndef CLAIRON_STORE_DIRECT_REQUEST_H
#define CLAIRON_STORE_DIRECT_REQUEST_H

#include "store/direct.h"

struct redisReply;

/* Like direct_open, but without a connection and without checks. */
struct direct *direct_new(const struct config *config);

/* Returns false if the store has another number of shards, or a request failed (direct_error). */
bool direct_check_shards(struct direct *direct);

/*
 * Sends a command to the server of a shard. In a cluster, and with sentinels, waits several seconds
 * for a slot move or a failover. The reply is valid until the next request. NULL: see direct_error.
 */
const struct redisReply *direct_request(struct direct *direct, unsigned shard, int argc,
                                        const char **argv);

#endif
