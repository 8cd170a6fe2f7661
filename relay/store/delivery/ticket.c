/* ticket.c: stores tickets, each of which can be redeemed once. */
#include "store/store.h"

#include <stdio.h>

#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

struct ticket {
    struct shard_request request;
    store_ticket_saved *saved;
    store_redeemed *redeemed;
    void *ctx;
    struct bytes claims;
};

static bool
on_ticket_stored(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    (void)request;
    (void)shard;
    (void)reply;
    return true;
}

static void
finish_saved(struct shard_request *request, enum rc rc)
{
    const struct ticket *ticket = (struct ticket *)request;

    ticket->saved(ticket->ctx, rc);
}

static const struct shard_request_kind save_kind = {
    .failure = "could not store a ticket", .on_reply = on_ticket_stored, .finish = finish_saved};

enum rc
store_ticket_save(struct store *store, const char *text, const char *claims,
                  store_ticket_saved *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], seconds[16];
    struct ticket *ticket;

    if (!store->is_up)
        return RC_AGAIN;
    ticket = shard_request_new(sizeof(*ticket), store, &save_kind);
    ticket->saved = done;
    ticket->ctx = ctx;
    key_write_of(key, sizeof(key), store->shards[0].prefix, KEY_TICKET, text);
    snprintf(seconds, sizeof(seconds), "%d", STORE_TICKET_SECONDS);
    argument(&arguments, "SET");
    argument(&arguments, key);
    argument(&arguments, claims);
    argument(&arguments, "EX");
    argument(&arguments, seconds);
    shard_request_send_command(&ticket->request, &store->shards[0], &arguments);
    return shard_request_await(&ticket->request);
}

static bool
on_ticket_redeemed(struct shard_request *request, struct shard *shard,
                   const struct redisReply *reply)
{
    (void)shard;
    ((struct ticket *)request)->claims = reply_bytes(shard_request_keep_reply(request, reply));
    return true;
}

static void
finish_redeemed(struct shard_request *request, enum rc rc)
{
    const struct ticket *ticket = (struct ticket *)request;

    ticket->redeemed(ticket->ctx, rc, ticket->claims);
}

static const struct shard_request_kind redeem_kind = {.failure = "could not redeem a ticket",
                                                      .on_reply = on_ticket_redeemed,
                                                      .finish = finish_redeemed};

enum rc
store_ticket_redeem(struct store *store, const char *text, store_redeemed *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    struct ticket *ticket;

    if (!store->is_up)
        return RC_AGAIN;
    ticket = shard_request_new(sizeof(*ticket), store, &redeem_kind);
    ticket->redeemed = done;
    ticket->ctx = ctx;
    shard_arguments(&store->shards[0], &arguments);
    argument(&arguments, text);
    shard_request_send_script(&ticket->request, &store->shards[0], STORE_SCRIPT_ticket, 1,
                              &arguments);
    return shard_request_await(&ticket->request);
}
