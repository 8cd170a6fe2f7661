/* groups.c: reads a user's memberships. */
#include <stdlib.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/ask.h"
#include "store/shards/store_private.h"

struct groups {
    struct ask ask;
    store_grouped *done;
    void *ctx;
    const struct redisReply *reply;
};

static bool
take_groups(struct ask *ask, struct shard *shard, const struct redisReply *reply)
{
    (void)shard;
    ((struct groups *)ask)->reply = ask_keep(ask, reply);
    return reply_is_array(reply, 0);
}

static void
finish_groups(struct ask *ask, enum rc rc)
{
    const struct groups *groups = (struct groups *)ask;
    const size_t count = rc == RC_OK ? reply_count(groups->reply) : 0;
    struct bytes *texts = memory_new((count + 1) * sizeof(*texts));

    for (size_t i = 0; i < count; i++)
        texts[i] = reply_bytes(reply_at(groups->reply, i));
    groups->done(groups->ctx, rc, texts, count);
    free(texts);
}

static const struct ask_kind groups_kind = {
    .what = "read a user's memberships", .take = take_groups, .finish = finish_groups};

enum rc
store_groups(struct store *store, const char *user, store_grouped *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX + 256];
    struct groups *groups;

    if (!store->is_up)
        return RC_AGAIN;
    groups = ask_new(sizeof(*groups), store, &groups_kind);
    groups->done = done;
    groups->ctx = ctx;
    key_write_of(key, sizeof(key), shard->prefix, KEY_GROUPS, user);
    argument(&arguments, "SMEMBERS");
    argument(&arguments, key);
    ask_command(&groups->ask, shard, &arguments);
    return ask_sent(&groups->ask);
}
