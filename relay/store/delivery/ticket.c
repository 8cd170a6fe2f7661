/* ticket.c: keeps and takes tickets. */
#include "store/ticket.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/shards/call.h"
#include "store/connection/reply.h"

struct ticket_call {
    struct store *store;
    store_kept *kept;
    store_redeemed *redeemed;
    void *ctx;
};

static struct ticket_call *
ticket_call_new(struct store *store, void *ctx)
{
    struct ticket_call *call = memory_new(sizeof(*call));

    call->store = store;
    call->ctx = ctx;
    return call;
}

static void
on_kept(void *ctx, const struct redisReply *reply)
{
    struct ticket_call *call = ctx;

    call->kept(call->ctx,
               call_succeeded(&call->store->shards[0], reply, "keep a ticket") ? RC_OK : RC_IO);
    free(call);
}

enum rc
store_ticket_keep(struct store *store, const char *ticket, const char *claims, store_kept *done,
                  void *ctx)
{
    struct ticket_call *call;
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];
    char seconds[16];
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = ticket_call_new(store, ctx);
    call->kept = done;
    key_write_of(key, sizeof(key), store->shards[0].prefix, KEY_TICKET, ticket);
    snprintf(seconds, sizeof(seconds), "%d", STORE_TICKET_SECONDS);
    argument(&arguments, "SET");
    argument(&arguments, key);
    argument(&arguments, claims);
    argument(&arguments, "EX");
    argument(&arguments, seconds);
    rc = link_send(store->shards[0].link, on_kept, call, arguments.argc, arguments.argv,
                   arguments.lens);
    if (rc != RC_OK)
        free(call);
    return rc;
}

static void
on_redeemed(void *ctx, const struct redisReply *reply)
{
    struct ticket_call *call = ctx;
    struct bytes none = {NULL, 0};

    if (!call_succeeded(&call->store->shards[0], reply, "take a ticket"))
        call->redeemed(call->ctx, RC_IO, none);
    else
        call->redeemed(call->ctx, RC_OK, reply_bytes(reply));
    free(call);
}

enum rc
store_ticket_redeem(struct store *store, const char *ticket, store_redeemed *done, void *ctx)
{
    struct ticket_call *call;
    struct arguments arguments = {.argc = 0};
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = ticket_call_new(store, ctx);
    call->redeemed = done;
    argument(&arguments, store->shards[0].stream_key);
    argument(&arguments, store->shards[0].prefix);
    argument(&arguments, ticket);
    rc = link_call(store->shards[0].link, STORE_SCRIPT_ticket, 1, on_redeemed, call, arguments.argc,
                   (const char **)arguments.argv, arguments.lens);
    if (rc != RC_OK)
        free(call);
    return rc;
}
