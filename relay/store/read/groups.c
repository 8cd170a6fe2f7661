/* groups.c: reads a user's memberships. */
#include <stdlib.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

struct groups {
    struct shard_request request;
    store_grouped *done;
    void *ctx;
    const struct redisReply *reply;
};

static bool
on_groups_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    (void)shard;
    ((struct groups *)request)->reply = shard_request_keep_reply(request, reply);
    return reply_is_array(reply, 0);
}

static void
finish_groups(struct shard_request *request, enum rc rc)
{
    const struct groups *groups = (struct groups *)request;
    const size_t count = rc == RC_OK ? reply_count(groups->reply) : 0;
    struct bytes *texts = memory_new((count + 1) * sizeof(*texts));

    for (size_t i = 0; i < count; i++)
        texts[i] = reply_bytes(reply_at(groups->reply, i));
    groups->done(groups->ctx, rc, texts, count);
    free(texts);
}

static const struct shard_request_kind groups_kind = {.failure =
                                                          "could not read a user's memberships",
                                                      .on_reply = on_groups_reply,
                                                      .finish = finish_groups};

enum rc
store_groups(struct store *store, const char *user, store_grouped *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX + 256];
    struct groups *groups;

    if (!store_has_shared(store))
        return RC_AGAIN;
    groups = shard_request_new(sizeof(*groups), store, &groups_kind);
    groups->done = done;
    groups->ctx = ctx;
    key_write_of(key, sizeof(key), shard->prefix, KEY_GROUPS, user);
    argument(&arguments, "SMEMBERS");
    argument(&arguments, key);
    shard_request_send_command(&groups->request, shard, &arguments);
    return shard_request_await(&groups->request);
}
