/* groups.c: what the store holds of a user's memberships. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/call.h"
#include "store/connection/reply.h"

static void
on_groups(void *ctx, const struct redisReply *reply)
{
    struct call *call = ctx;
    struct bytes *groups;

    if (!call_succeeded(call->shard, reply, "read a user's memberships") ||
        !reply_is_array(reply, 0)) {
        call->done.grouped(call->ctx, RC_IO, NULL, 0);
        free(call);
        return;
    }
    groups = memory_new((reply_count(reply) + 1) * sizeof(*groups));
    for (size_t i = 0; i < reply_count(reply); i++)
        groups[i] = reply_bytes(reply_at(reply, i));
    call->done.grouped(call->ctx, RC_OK, groups, reply_count(reply));
    free(groups);
    free(call);
}

enum rc
store_groups(struct store *store, const char *user, store_grouped *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct call *call;
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX + 256];
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(shard, ctx);
    call->done.grouped = done;
    key_write_of(key, sizeof(key), shard->prefix, KEY_GROUPS, user);
    argument(&arguments, "SMEMBERS");
    argument(&arguments, key);
    rc = link_send(shard->link, on_groups, call, arguments.argc, arguments.argv, arguments.lens);
    if (rc != RC_OK)
        free(call);
    return rc;
}
