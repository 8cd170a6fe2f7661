/*
 * tokens.c: what relays share of tokens, in shard 0: tickets, which replace a token once, and the
 * last key sets that were fetched from the issuers.
 */
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

#define KEPT_MS (INT64_C(30) * 86400 * 1000) /* after the last fetch */

/* ---- tickets */

static const struct shard_request_kind ticket_save_kind = {.failure = "could not store a ticket"};
static const struct shard_request_kind ticket_redeem_kind = {.failure =
                                                                 "could not redeem a ticket"};

enum rc
store_ticket_save(struct store *store, const char *text, const char *claims, store_acked *done,
                  void *ctx)
{
    struct shard *shard = &store->shards[0];
    char key[STORE_KEY_MAX];

    if (!store->is_up)
        return RC_AGAIN;
    key_write_of(key, sizeof(key), shard->prefix, KEY_TICKET, text);
    return shard_request_set(&ticket_save_kind, shard, key, bytes_of_text(claims),
                             STORE_TICKET_SECONDS * INT64_C(1000), done, ctx);
}

enum rc
store_ticket_redeem(struct store *store, const char *text, store_bytes_read *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    struct shard_request *request;

    if (!store->is_up)
        return RC_AGAIN;
    request = shard_request_new(sizeof(*request), store, &ticket_redeem_kind);
    request->read = done;
    request->ctx = ctx;
    shard_arguments(&store->shards[0], &arguments);
    argument(&arguments, text);
    shard_request_send_script(request, &store->shards[0], STORE_SCRIPT_ticket, 1, &arguments);
    return shard_request_sent(request);
}

/* ---- the keys of issuers */

static const struct shard_request_kind keys_save_kind = {
    .failure = "could not store the keys of an issuer"};
static const struct shard_request_kind keys_read_kind = {
    .failure = "could not read the keys of an issuer"};

enum rc
store_save_issuer_keys(struct store *store, const char *issuer, const char *text, size_t len,
                       store_acked *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    char key[STORE_KEY_MAX];

    if (!store_has_shared(store))
        return RC_AGAIN;
    key_write_of(key, sizeof(key), shard->prefix, KEY_ISSUER_KEYS, issuer);
    return shard_request_set(&keys_save_kind, shard, key,
                             (struct bytes){(const unsigned char *)text, len}, KEPT_MS, done, ctx);
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
    request = shard_request_new(sizeof(*request), store, &keys_read_kind);
    request->read = done;
    request->ctx = ctx;
    key_write_of(key, sizeof(key), shard->prefix, KEY_ISSUER_KEYS, issuer);
    argument(&arguments, "GET");
    argument(&arguments, key);
    shard_request_send_command(request, shard, &arguments);
    return shard_request_sent(request);
}
