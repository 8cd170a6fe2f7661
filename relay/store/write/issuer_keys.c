/* issuer_keys.c: the last key sets that were fetched from the issuers of tokens, in shard 0. */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

#define KEPT_MS (INT64_C(30) * 86400 * 1000) /* after the last fetch */

static const struct shard_request_kind save_kind = {.failure =
                                                        "could not store the keys of an issuer"};
static const struct shard_request_kind read_kind = {.failure =
                                                        "could not read the keys of an issuer"};

enum rc
store_save_issuer_keys(struct store *store, const char *issuer, const char *text, size_t len,
                       store_acked *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], lifetime[24];
    struct shard_request *request;

    if (!store_has_shared(store))
        return RC_AGAIN;
    request = shard_request_new(sizeof(*request), store, &save_kind);
    request->acked = done;
    request->ctx = ctx;
    key_write_of(key, sizeof(key), shard->prefix, KEY_ISSUER_KEYS, issuer);
    snprintf(lifetime, sizeof(lifetime), "%" PRId64, KEPT_MS);
    argument(&arguments, "SET");
    argument(&arguments, key);
    argument_bytes(&arguments, text, len);
    argument(&arguments, "PX");
    argument(&arguments, lifetime);
    shard_request_send_command(request, shard, &arguments);
    return shard_request_await(request);
}

enum rc
store_read_issuer_keys(struct store *store, const char *issuer, store_bytes_read *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];
    struct shard_request *request;

    if (!store_has_shared(store))
        return RC_AGAIN;
    request = shard_request_new(sizeof(*request), store, &read_kind);
    request->read = done;
    request->ctx = ctx;
    key_write_of(key, sizeof(key), shard->prefix, KEY_ISSUER_KEYS, issuer);
    argument(&arguments, "GET");
    argument(&arguments, key);
    shard_request_send_command(request, shard, &arguments);
    return shard_request_await(request);
}
