/* publish.c: stores notifications that were published over HTTP. */
#include "store/publish.h"

#include <stdio.h>
#include <string.h>

#include "store/connection/reply.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"
#include "wire/publication.h"

struct publish {
    struct shard_request request;
    store_published *done;
    void *ctx;
    enum store_publish outcome;
    const char *id; /* points into the reply */
};

static bool
on_publish_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    static const char *const WORDS[] = {"stored", "repeated", "different", "expired"};
    struct publish *publish = (struct publish *)request;
    const char *word = reply_text(reply_at(reply, 1));

    (void)shard;
    publish->id = reply_text(reply_at(reply, 0));
    if (publish->id == NULL || word == NULL)
        return false;
    for (int outcome = STORE_PUBLISHED; outcome <= STORE_PUBLISHED_EXPIRED; outcome++) {
        if (strcmp(word, WORDS[outcome]) != 0)
            continue;
        publish->outcome = (enum store_publish)outcome;
        return true;
    }
    return false;
}

static void
finish_publish(struct shard_request *request, enum rc rc)
{
    const struct publish *publish = (struct publish *)request;

    publish->done(publish->ctx, rc, publish->outcome, rc == RC_OK ? publish->id : "");
}

static const struct shard_request_kind publish_kind = {.failure = "could not store a notification",
                                                       .on_reply = on_publish_reply,
                                                       .finish = finish_publish};

/* Idempotency keys and their notifications are in shard 0. */
unsigned
store_publish_shard(const struct store *store, const struct publication *publication,
                    const char *key)
{
    bool is_for_one = strcmp(publication->audience, "USER") == 0 && publication->target_count == 1;

    return is_for_one && key == NULL ? store_shard_of(store, publication->targets[0]) : 0;
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
    struct arguments arguments = {.argc = 0};
    struct shard *shard = &store->shards[store_publish_shard(store, publication, key)];
    struct publish *publish;
    char kept_ms[24];

    if (!store->is_up)
        return RC_AGAIN;
    snprintf(kept_ms, sizeof(kept_ms), "%d", STORE_IDEMPOTENCY_RETENTION_MS);
    publish = shard_request_new(sizeof(*publish), store, &publish_kind);
    publish->done = done;
    publish->ctx = ctx;
    shard_arguments(shard, &arguments);
    argument(&arguments, shard->epoch);
    argument(&arguments, key != NULL ? key : "");
    argument(&arguments, digest);
    argument(&arguments, kept_ms);
    argument(&arguments, mode_of(publication));
    argument(&arguments, publication->id);
    argument_bytes(&arguments, publication->head.bytes, publication->head.len);
    argument_bytes(&arguments, publication->data.bytes, publication->data.len);
    argument(&arguments, publication->audience);
    for (size_t i = 0; i < publication->target_count; i++)
        argument(&arguments, publication->targets[i]);
    shard_request_send_script(&publish->request, shard, STORE_SCRIPT_publish, 1, &arguments);
    return shard_request_await(&publish->request);
}
