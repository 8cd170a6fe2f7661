/* staging.c: writes the users of a large audience in steps, before the notification is added. */
#include "store/shards/staging.h"

#include <stdio.h>
#include <string.h>

#include "store/connection/reply.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"

void
staging_send(const struct staging *staging, struct shard_request *request, struct shard *shard)
{
    struct arguments arguments = {.argc = 0};
    char target[24];

    snprintf(target, sizeof(target), "%lld", staging->target);
    shard_arguments(shard, &arguments);
    argument(&arguments, shard->epoch);
    argument(&arguments, staging->progress);
    argument(&arguments, staging->owner);
    argument(&arguments, staging->id);
    argument(&arguments, target);
    argument(&arguments, staging->cursor);
    argument(&arguments, staging->audience);
    for (size_t i = 0; i < staging->target_count; i++)
        argument_bytes(&arguments, staging->targets[i], staging->target_lens[i]);
    shard_request_send_script(request, shard, STORE_SCRIPT_stage, 1, &arguments);
}

enum rc
staging_read(struct staging *staging, const struct redisReply *reply)
{
    const struct bytes cursor = reply_bytes(reply_at(reply, 1));

    if (!reply_is_array(reply, 2) || cursor.at == NULL || cursor.len >= STAGING_CURSOR_MAX)
        return RC_BAD;
    staging->target = reply_integer(reply_at(reply, 0));
    snprintf(staging->cursor, sizeof(staging->cursor), "%.*s", (int)cursor.len,
             (const char *)cursor.at);
    return staging->target == 0 ? RC_OK : RC_AGAIN;
}
