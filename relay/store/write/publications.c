/* publications.c: stores notifications that were published over HTTP. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"
#include "wire/publication.h"

struct publish {
    struct shard_request request;
    store_published *done;
    void *ctx;
    enum store_publish outcome;
    const char *id;              /* points into the reply */
    struct kept_arguments *kept; /* if the audience may be large; otherwise NULL */
    struct staging staging;
    bool is_staging; /* a step is in flight */
};

/* Positions of the script's arguments. */
enum {
    PUBLISH_MODE = 6,
    PUBLISH_ID,
    PUBLISH_WEB_PUSH = 10,
    PUBLISH_AUDIENCE = 13,
    PUBLISH_TARGETS
};

/* The users of a large audience are staged in steps, and then the notification is sent again. */
static bool
send_next_step(struct publish *publish, struct shard *shard, const struct redisReply *reply)
{
    struct kept_arguments *kept = publish->kept;
    bool has_push = kept->argv[PUBLISH_WEB_PUSH][0] != '\0';
    bool needs_ack = strchr("AS", kept->argv[PUBLISH_MODE][0]) != NULL;
    enum rc rc = publish->is_staging ? staging_read(&publish->staging, reply) : RC_AGAIN;

    if (!publish->is_staging)
        publish->staging = (struct staging){.progress = "",
                                            .owner = "",
                                            .id = kept->argv[PUBLISH_ID],
                                            .purpose = !needs_ack ? "P"
                                                       : has_push ? "AP"
                                                                  : "A",
                                            .audience = kept->argv[PUBLISH_AUDIENCE],
                                            .targets = kept->argv + PUBLISH_TARGETS,
                                            .target_lens = kept->lens + PUBLISH_TARGETS,
                                            .target_count = kept->argc - PUBLISH_TARGETS,
                                            .target = 1};
    publish->is_staging = rc == RC_AGAIN;
    kept->argv[PUBLISH_MODE] = needs_ack ? "S" : "P";
    if (rc == RC_AGAIN)
        staging_send(&publish->staging, &publish->request, shard);
    else if (rc == RC_OK)
        shard_request_send_script_argv(&publish->request, shard, STORE_SCRIPT_publish, 1,
                                       kept->argc, kept->argv, kept->lens);
    return rc != RC_BAD;
}

static bool
on_publish_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    static const char *const WORDS[] = {"stored", "repeated", "different", "expired"};
    struct publish *publish = (struct publish *)request;
    const char *word = reply_text(reply_at(reply, 1));

    if (publish->kept != NULL &&
        (publish->is_staging || (word != NULL && strcmp(word, "large") == 0)))
        return send_next_step(publish, shard, reply);
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

static void
release_publish(struct shard_request *request)
{
    free(((struct publish *)request)->kept);
}

static const struct shard_request_kind publish_kind = {.failure = "could not store a notification",
                                                       .on_reply = on_publish_reply,
                                                       .finish = finish_publish,
                                                       .release = release_publish};

/* Idempotency keys and their notifications are in shard 0. */
unsigned
store_publish_shard(const struct store *store, const struct publication *publication,
                    const char *key)
{
    bool is_for_one = strcmp(publication->audience, "USER") == 0 && publication->target_count == 1;

    return is_for_one && key == NULL ? store_shard_of(store, publication->targets[0]) : 0;
}

enum rc
store_publish(struct store *store, const struct publication *publication, const char *key,
              const char digest[STORE_DIGEST_TEXT + 1], store_published *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    struct shard *shard = &store->shards[store_publish_shard(store, publication, key)];
    struct publish *publish;

    if (!store->is_up)
        return RC_AGAIN;
    publish = shard_request_new(sizeof(*publish), store, &publish_kind);
    publish->done = done;
    publish->ctx = ctx;
    shard_arguments(shard, &arguments);
    argument(&arguments, shard->epoch);
    argument(&arguments, key != NULL ? key : "");
    argument(&arguments, digest);
    argument_number(&arguments, STORE_IDEMPOTENCY_RETENTION_MS);
    argument(&arguments, publication->is_expired ? "E" : publication->needs_ack ? "A" : "N");
    argument(&arguments, publication->id);
    argument_bytes(&arguments, publication->head.bytes, publication->head.len);
    argument_bytes(&arguments, publication->data.bytes, publication->data.len);
    argument(&arguments, publication->web_push != NULL ? publication->web_push : "");
    argument(&arguments, publication->urgency);
    argument_number(&arguments, store->config->webpush.delay_ms);
    argument(&arguments, publication->audience);
    for (size_t i = 0; i < publication->target_count; i++)
        argument(&arguments, publication->targets[i]);
    if ((publication->needs_ack || publication->web_push != NULL) && !publication->is_expired &&
        (strcmp(publication->audience, "USER") != 0 || publication->target_count > STORE_PAIRS_MAX))
        publish->kept = arguments_keep(arguments.argc, arguments.argv, arguments.lens);
    shard_request_send_script(&publish->request, shard, STORE_SCRIPT_publish, 1, &arguments);
    return shard_request_sent(&publish->request);
}
