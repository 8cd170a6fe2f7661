/* publish.c: stores what was asked for over HTTP. */
#include "store/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/call.h"
#include "store/connection/reply.h"
#include "wire/publication.h"

#define FIXED_ARGUMENTS 11

struct publish_call {
    struct shard *shard;
    store_published *done;
    void *ctx;
};

static void
tell(const struct publish_call *call, const struct redisReply *reply)
{
    static const char *const WORDS[] = {"stored", "repeated", "different", "expired"};

    if (call_succeeded(call->shard, reply, "store a notification") && reply_is_array(reply, 2) &&
        reply_text(reply_at(reply, 0)) != NULL && reply_text(reply_at(reply, 1)) != NULL) {
        for (int how = STORE_PUBLISHED; how <= STORE_PUBLISHED_EXPIRED; how++) {
            if (strcmp(reply_text(reply_at(reply, 1)), WORDS[how]) == 0) {
                call->done(call->ctx, RC_OK, (enum store_publish)how,
                           reply_text(reply_at(reply, 0)));
                return;
            }
        }
    }
    call->done(call->ctx, RC_IO, STORE_PUBLISHED, "");
}

static void
on_published(void *ctx, const struct redisReply *reply)
{
    struct publish_call *call = ctx;

    tell(call, reply);
    free(call);
}

/* Keys are known in shard 0, with what they stand for. */
static struct shard *
shard_of(struct store *store, const struct publication *publication, const char *key)
{
    bool is_for_one = strcmp(publication->audience, "USER") == 0 && publication->target_count == 1;

    return &store->shards[is_for_one && key == NULL ? store_shard_of(store, publication->targets[0])
                                                    : 0];
}

static const char *
mode_of(const struct publication *publication)
{
    if (publication->is_expired)
        return "E";
    return publication->needs_ack ? "A" : "N";
}

enum rc
store_publish(struct store *store, const struct publication *publication, const char *key,
              const char digest[STORE_DIGEST_TEXT + 1], store_published *done, void *ctx)
{
    struct long_arguments arguments;
    struct shard *shard = shard_of(store, publication, key);
    struct publish_call *call;
    char kept_ms[24];
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    snprintf(kept_ms, sizeof(kept_ms), "%d", STORE_KEY_KEPT_MS);
    call = memory_new(sizeof(*call));
    *call = (struct publish_call){shard, done, ctx};
    long_arguments_init(&arguments, FIXED_ARGUMENTS + publication->target_count);
    long_argument(&arguments, shard->stream_key);
    long_argument(&arguments, shard->prefix);
    long_argument(&arguments, shard->epoch);
    long_argument(&arguments, key != NULL ? key : "");
    long_argument(&arguments, digest);
    long_argument(&arguments, kept_ms);
    long_argument(&arguments, mode_of(publication));
    long_argument(&arguments, publication->id);
    long_argument_bytes(&arguments, publication->head.bytes, publication->head.len);
    long_argument_bytes(&arguments, publication->data.bytes, publication->data.len);
    long_argument(&arguments, publication->audience);
    for (size_t i = 0; i < publication->target_count; i++)
        long_argument(&arguments, publication->targets[i]);
    rc = link_call(shard->link, STORE_SCRIPT_publish, 1, on_published, call, (int)arguments.argc,
                   arguments.argv, arguments.lens);
    long_arguments_free(&arguments);
    if (rc != RC_OK)
        free(call);
    return rc;
}
