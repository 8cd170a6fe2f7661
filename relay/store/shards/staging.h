/*
 * staging.h: writes the users of a large audience in steps, before the notification is added.
 *
 * One script may add STORE_PAIRS_MAX pairs. Each step (stage.lua) adds that many users to a hash
 * that nothing reads yet. The script that adds the notification then only renames the hash.
 */
#ifndef CLAIRON_STORE_STAGING_H
#define CLAIRON_STORE_STAGING_H

#include <stddef.h>

#include "base/rc.h"
#include "store/scripts/keys.h"

#define STAGING_CURSOR_MAX 32

struct redisReply;
struct shard;
struct shard_request;

/* The users of one notification. The strings must live until the last step. */
struct staging {
    const char *progress; /* key of the slot's progress, and its owner; "": not by a feed */
    const char *owner;
    const char *id;
    const char *audience;
    const char *const *targets;
    const size_t *target_lens;
    size_t target_count;
    /* where the next step continues; the first step: 1 and "" */
    long long target;
    char cursor[STAGING_CURSOR_MAX];
};

/* Sends the next step to the shard. */
void staging_send(const struct staging *staging, struct shard_request *request,
                  struct shard *shard);

/* Reads the reply to a step. RC_OK: all users are staged. RC_AGAIN: send the next step. */
MUST_CHECK enum rc staging_read(struct staging *staging, const struct redisReply *reply);

#endif
