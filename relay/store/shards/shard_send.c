/* shard_send.c: sends requests to a shard that is up. */
#include "store/shards/shard_send.h"

#include <stdlib.h>

enum rc
shard_send(struct shard *shard, link_reply *reply, void *ctx, int argc, const char **argv,
           const size_t *lens)
{
    return shard->is_up ? link_send(shard->link, reply, ctx, argc, argv, lens) : RC_AGAIN;
}

enum rc
shard_call(struct shard *shard, enum store_script script, int key_count, link_reply *reply,
           void *ctx, int argc, const char **argv, const size_t *lens)
{
    return shard->is_up ? link_call(shard->link, script, key_count, reply, ctx, argc, argv, lens)
                        : RC_AGAIN;
}

enum rc
shard_send_ready(struct shard *shard, enum time_of what, link_reply *reply, void *ctx, char *bytes,
                 size_t len, size_t count)
{
    if (shard->is_up)
        return link_send_ready(shard->link, what, reply, ctx, bytes, len, count);
    free(bytes);
    return RC_AGAIN;
}
