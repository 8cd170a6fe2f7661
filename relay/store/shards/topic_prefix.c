/* topic_prefix.c: stores the topic prefix, for relays without a feed. */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"

void
topic_prefix_set(char prefix[STORE_TOPIC_PREFIX_MAX], struct bytes text)
{
    if (text.at != NULL && text.len < STORE_TOPIC_PREFIX_MAX)
        snprintf(prefix, STORE_TOPIC_PREFIX_MAX, "%.*s", (int)text.len, (const char *)text.at);
}

const char *
store_topic_prefix(const struct store *store)
{
    return store->topic_prefix;
}

static void
on_stored(void *ctx, const struct redisReply *reply)
{
    (void)shard_check_reply(ctx, reply, "could not store the topic prefix");
}

void
store_set_topic_prefix(struct store *store, const char *prefix)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];

    if (strlen(prefix) >= STORE_TOPIC_PREFIX_MAX)
        return;
    snprintf(store->topic_prefix, sizeof(store->topic_prefix), "%s", prefix);
    key_write(key, store->shards[0].prefix, KEY_META);
    argument(&arguments, "HSET");
    argument(&arguments, key);
    argument(&arguments, "topic_prefix");
    argument(&arguments, prefix);
    if (shard_send(&store->shards[0], on_stored, &store->shards[0], (int)arguments.argc,
                   arguments.argv, arguments.lens) != RC_OK)
        log_debug("store", "could not store the topic prefix: the feed retries at its next start");
}
