/* stored_presence.c: which users have sessions at this relay; the last session of a user. */
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
    unsigned first;  /* a bit for each shard whose first users of this relay are stored */
};

static bool
on_presence_reply(struct shard_request *request, struct shard *shard,
                  const struct redisReply *reply)
{
    struct presence *presence = (struct presence *)request;

    if (!reply_is_integer(reply))
        return false;
    if ((presence->first & 1u << shard->number) == 0)
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

static bool
is_of_shard(const struct store *store, unsigned k, const char *user)
{
    return k == 0 || store_shard_of(store, user) == k;
}

/*
 * A shard needs heartbeats only while the relay has users there, and shard 0 always: without them
 * the relay's users of the shard have left. So the first of them replace what it has.
 */
static void
store_in_shard(struct presence *presence, struct shard *shard, enum store_presence_change what,
               const char *const *users, size_t count)
{
    static const char *const words[] = {"=", "+", "-", "."};
    struct arguments arguments = {.argc = 0};
    const bool is_first = shard->number > 0 && what == STORE_PRESENCE_JOINED && shard->present == 0;
    const bool is_whole = what == STORE_PRESENCE_ALL || is_first;
    size_t fixed, changed = 0;

    begin_arguments(&arguments, shard, is_whole ? words[STORE_PRESENCE_ALL] : words[what]);
    fixed = arguments.argc;
    for (size_t i = 0; i < count; i++) {
        if (!is_of_shard(shard->store, shard->number, users[i]))
            continue;
        if (arguments.argc == fixed + USERS_MAX) {
            shard_request_send_script(&presence->request, shard, STORE_SCRIPT_presence, 1,
                                      &arguments);
            begin_arguments(&arguments, shard,
                            is_whole ? words[STORE_PRESENCE_JOINED] : words[what]);
        }
        argument(&arguments, users[i]);
        changed++;
    }
    if (is_first && changed > 0)
        presence->first |= 1u << shard->number;
    if (what == STORE_PRESENCE_ALL)
        shard->present = 0;
    if (what == STORE_PRESENCE_LEFT)
        shard->present -= changed < shard->present ? changed : shard->present;
    else
        shard->present += changed;
    if (arguments.argc > fixed || what == STORE_PRESENCE_ALL ||
        (what == STORE_PRESENCE_HEARTBEAT && (shard->number == 0 || shard->present > 0)))
        shard_request_send_script(&presence->request, shard, STORE_SCRIPT_presence, 1, &arguments);
    else
        arguments_free(&arguments);
}

enum rc
store_presence(struct store *store, enum store_presence_change what, const char *const *users,
               size_t count, store_presence_stored *done, void *ctx)
{
    struct presence *presence;

    if (!store->is_up)
        return RC_AGAIN;
    presence = shard_request_new(sizeof(*presence), store, &presence_kind);
    presence->done = done;
    presence->ctx = ctx;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (!store->shards[k].is_left_out) /* all users are registered again when it returns */
            store_in_shard(presence, &store->shards[k], what, users, count);
    }
    return shard_request_sent(&presence->request);
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
    return shard_request_sent(&query->request);
}
