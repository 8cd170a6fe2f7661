/* presence.c: stores which users have sessions at this relay; reads the last one of a user. */
#include <stdbool.h>
#include <stdio.h>

#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

#define USERS_MAX 10000 /* users of one script, which blocks the store */

struct presence {
    struct shard_request request;
    store_presence_stored *done;
    void *ctx;
    bool is_unknown; /* at least one shard lacks this relay's presence */
};

static bool
on_presence_reply(struct shard_request *request, struct shard *shard,
                  const struct redisReply *reply)
{
    struct presence *presence = (struct presence *)request;

    (void)shard;
    if (!reply_is_integer(reply))
        return false;
    presence->is_unknown |= reply_integer(reply) == 0;
    return true;
}

static void
finish_presence(struct shard_request *request, enum rc rc)
{
    const struct presence *presence = (struct presence *)request;

    presence->done(presence->ctx, rc, rc == RC_OK && !presence->is_unknown);
}

static const struct shard_request_kind presence_kind = {.failure = "could not store presence",
                                                        .on_reply = on_presence_reply,
                                                        .finish = finish_presence};

static void
begin_arguments(struct arguments *arguments, const struct shard *shard, const char *word)
{
    const struct store *store = shard->store;
    /* Web Push reads it in shard 0, which has all users. */
    const bool records_last_seen =
        shard == &store->shards[0] && store->config->webpush.keys[0] != NULL;

    shard_arguments(shard, arguments);
    argument(arguments, store->relay_id);
    argument(arguments, word);
    argument(arguments, records_last_seen ? "1" : "");
}

enum rc
store_presence(struct store *store, enum store_presence_change what, const char *const *users,
               size_t count, store_presence_stored *done, void *ctx)
{
    static const char *const words[] = {"=", "+", "-", "."};
    struct presence *presence;

    if (!store->is_up)
        return RC_AGAIN;
    presence = shard_request_new(sizeof(*presence), store, &presence_kind);
    presence->done = done;
    presence->ctx = ctx;
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct arguments arguments = {.argc = 0};
        size_t fixed;

        if (store->shards[k].is_left_out)
            continue; /* all users are registered again when the shard returns */
        begin_arguments(&arguments, &store->shards[k], words[what]);
        fixed = arguments.argc;
        for (size_t i = 0; i < count; i++) {
            if (k != 0 && store_shard_of(store, users[i]) != k)
                continue;
            if (arguments.argc == fixed + USERS_MAX) {
                shard_request_send_script(&presence->request, &store->shards[k],
                                          STORE_SCRIPT_presence, 1, &arguments);
                begin_arguments(&arguments, &store->shards[k],
                                what == STORE_PRESENCE_ALL ? words[STORE_PRESENCE_JOINED]
                                                           : words[what]);
            }
            argument(&arguments, users[i]);
        }
        if (arguments.argc > fixed || what == STORE_PRESENCE_ALL ||
            what == STORE_PRESENCE_HEARTBEAT)
            shard_request_send_script(&presence->request, &store->shards[k], STORE_SCRIPT_presence,
                                      1, &arguments);
        else
            arguments_free(&arguments);
    }
    return shard_request_await(&presence->request);
}

/* ---- a user on any relay */

struct presence_query {
    struct shard_request request;
    store_presence_known *done;
};

static void
finish_query(struct shard_request *request, enum rc rc)
{
    const struct presence_query *query = (struct presence_query *)request;

    query->done(request->ctx, rc, reply_integer(request->reply) == 1);
}

static const struct shard_request_kind query_kind = {
    .failure = "could not read the presence", .is_valid = reply_is_integer, .finish = finish_query};

enum rc
store_was_present(struct store *store, const char *user, int64_t since_ms,
                  store_presence_known *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    struct presence_query *query;

    if (!store->is_up)
        return RC_AGAIN;
    query = shard_request_new(sizeof(*query), store, &query_kind);
    query->done = done;
    query->request.ctx = ctx;
    shard_arguments(&store->shards[0], &arguments);
    argument(&arguments, user);
    argument_number(&arguments, since_ms);
    shard_request_send_script(&query->request, &store->shards[0], STORE_SCRIPT_was_present, 1,
                              &arguments);
    return shard_request_await(&query->request);
}
