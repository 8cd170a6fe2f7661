/* issuer_keys.c: the last key sets that were fetched from the issuers of tokens, in shard 0. */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

#define KEPT_MS (INT64_C(30) * 86400 * 1000) /* after the last fetch */

struct issuer_keys {
    struct shard_request request;
    store_issuer_keys_read *read; /* NULL: they are saved */
    store_acked *saved;
    void *ctx;
    struct bytes text; /* points into the reply */
};

static bool
on_issuer_keys(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct issuer_keys *keys = (struct issuer_keys *)request;

    (void)shard;
    keys->text = reply_bytes(shard_request_keep_reply(request, reply));
    return true;
}

static void
finish(struct shard_request *request, enum rc rc)
{
    const struct issuer_keys *keys = (struct issuer_keys *)request;

    if (keys->read != NULL)
        keys->read(keys->ctx, rc, keys->text);
    else
        keys->saved(keys->ctx, rc);
}

static const struct shard_request_kind save_kind = {.failure =
                                                        "could not store the keys of an issuer",
                                                    .on_reply = on_issuer_keys,
                                                    .finish = finish};

static const struct shard_request_kind read_kind = {.failure =
                                                        "could not read the keys of an issuer",
                                                    .on_reply = on_issuer_keys,
                                                    .finish = finish};

static struct issuer_keys *
issuer_keys_new(struct store *store, const struct shard_request_kind *kind, void *ctx)
{
    struct issuer_keys *keys = shard_request_new(sizeof(*keys), store, kind);

    keys->ctx = ctx;
    return keys;
}

enum rc
store_save_issuer_keys(struct store *store, const char *issuer, const char *text, size_t len,
                       store_acked *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], lifetime[24];
    struct issuer_keys *keys;

    if (!store_has_shared(store))
        return RC_AGAIN;
    keys = issuer_keys_new(store, &save_kind, ctx);
    keys->saved = done;
    key_write_of(key, sizeof(key), shard->prefix, KEY_ISSUER_KEYS, issuer);
    snprintf(lifetime, sizeof(lifetime), "%" PRId64, KEPT_MS);
    argument(&arguments, "SET");
    argument(&arguments, key);
    argument_bytes(&arguments, text, len);
    argument(&arguments, "PX");
    argument(&arguments, lifetime);
    shard_request_send_command(&keys->request, shard, &arguments);
    return shard_request_await(&keys->request);
}

enum rc
store_read_issuer_keys(struct store *store, const char *issuer, store_issuer_keys_read *done,
                       void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];
    struct issuer_keys *keys;

    if (!store_has_shared(store))
        return RC_AGAIN;
    keys = issuer_keys_new(store, &read_kind, ctx);
    keys->read = done;
    key_write_of(key, sizeof(key), shard->prefix, KEY_ISSUER_KEYS, issuer);
    argument(&arguments, "GET");
    argument(&arguments, key);
    shard_request_send_command(&keys->request, shard, &arguments);
    return shard_request_await(&keys->request);
}
