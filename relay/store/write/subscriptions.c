/*
 * subscriptions.c: the Web Push subscriptions of users. The binding of an endpoint to a user, in
 * the endpoint's shard, is decisive. Each user's list is in the user's shard, and may contain
 * endpoints that another user has registered since: reading it removes them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"
#include "wire/subscription.h"

#define FAILURE_MAX 320 /* the time, and the reason, which is cut off */

/* Positions in the list that subscriptions.lua returns. */
enum { LIST_ID, LIST_VALUE, LIST_STEP };

/* Positions in what check_endpoints.lua returns for each endpoint. */
enum { CHECK_IS_BOUND, CHECK_FAILURE, CHECK_STEP };

struct subscriptions {
    struct shard_request request;
    char *user;
    char *text; /* the subscription to save; NULL: none */
    char id[SUBSCRIPTION_ID_TEXT + 1];
    bool has_bound; /* the endpoint's shard has replied */
    bool has_changed;
    const struct redisReply *list; /* NULL: not read yet */
    bool *is_bound;                /* of each subscription in the list */
    char **failures;               /* of each: the time in ms, and the reason; "": none */
    struct store_subscription *bound;
    store_subscribed *subscribed;
    store_listed *listed;
    void *ctx;
};

static struct shard *
shard_of_endpoint(struct store *store, const char *id)
{
    return &store->shards[shard_of_user(store->shard_count, id, strlen(id))];
}

static void
release(struct shard_request *request)
{
    struct subscriptions *subscriptions = (struct subscriptions *)request;

    free(subscriptions->user);
    free(subscriptions->text);
    free(subscriptions->is_bound);
    free(subscriptions->bound);
}

static struct subscriptions *
subscriptions_new(struct store *store, const struct shard_request_kind *kind, const char *user,
                  void *ctx)
{
    struct subscriptions *subscriptions = shard_request_new(sizeof(*subscriptions), store, kind);

    subscriptions->user = memory_text(user, strlen(user));
    subscriptions->ctx = ctx;
    return subscriptions;
}

static void
send_to_endpoint(struct subscriptions *subscriptions)
{
    struct store *store = subscriptions->request.store;
    struct shard *shard = shard_of_endpoint(store, subscriptions->id);
    struct arguments arguments = {.argc = 0};

    shard_arguments(shard, &arguments);
    argument(&arguments, subscriptions->id);
    argument(&arguments, subscriptions->user);
    if (subscriptions->text != NULL)
        argument_number(&arguments, store->config->webpush.keep_ms);
    else
        argument(&arguments, "");
    shard_request_send_script(&subscriptions->request, shard, STORE_SCRIPT_bind_endpoint, 1,
                              &arguments);
}

/* Sends an action of subscriptions.lua, with up to three arguments. */
static void
send_to_list(struct subscriptions *subscriptions, const char *action, const char *first,
             const char *second, const char *third)
{
    struct store *store = subscriptions->request.store;
    struct shard *shard = &store->shards[store_shard_of(store, subscriptions->user)];
    const char *more[] = {action, first, second, third};
    struct arguments arguments = {.argc = 0};

    shard_arguments(shard, &arguments);
    argument(&arguments, subscriptions->user);
    argument_number(&arguments, store->config->webpush.keep_ms);
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]) && more[i] != NULL; i++)
        argument(&arguments, more[i]);
    shard_request_send_script(&subscriptions->request, shard, STORE_SCRIPT_subscriptions, 1,
                              &arguments);
}

/* ---- a change: first the binding, then the list */

static bool
on_change_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct subscriptions *subscriptions = (struct subscriptions *)request;
    char max[16];

    (void)shard;
    if (subscriptions->has_bound)
        return reply_is_array(reply, 0);
    if (!reply_is_integer(reply))
        return false;
    subscriptions->has_bound = true;
    subscriptions->has_changed = reply_integer(reply) != 0;
    snprintf(max, sizeof(max), "%d", request->store->config->webpush.max_per_user);
    if (subscriptions->text != NULL)
        send_to_list(subscriptions, "save", max, subscriptions->id, subscriptions->text);
    else
        send_to_list(subscriptions, "remove", subscriptions->id, "", NULL);
    return true;
}

static void
finish_change(struct shard_request *request, enum rc rc)
{
    const struct subscriptions *subscriptions = (struct subscriptions *)request;

    subscriptions->subscribed(subscriptions->ctx, rc, subscriptions->has_changed);
}

static const struct shard_request_kind change_kind = {.failure =
                                                          "could not store a Web Push subscription",
                                                      .on_reply = on_change_reply,
                                                      .finish = finish_change,
                                                      .release = release};

enum rc
store_subscribe(struct store *store, const char *user, const char *endpoint, const char *text,
                store_subscribed *done, void *ctx)
{
    struct subscriptions *subscriptions;

    if (!store->is_up)
        return RC_AGAIN;
    subscriptions = subscriptions_new(store, &change_kind, user, ctx);
    subscriptions->subscribed = done;
    subscriptions->text = text != NULL ? memory_text(text, strlen(text)) : NULL;
    subscription_id(endpoint, subscriptions->id);
    send_to_endpoint(subscriptions);
    return shard_request_sent(&subscriptions->request);
}

/* ---- reading: first the list, then the bindings in the shards of its endpoints */

static const char *
id_at(const struct subscriptions *subscriptions, size_t number)
{
    const char *id = reply_text(reply_at(subscriptions->list, number * LIST_STEP + LIST_ID));

    return id != NULL ? id : "";
}

static const char *
value_at(const struct subscriptions *subscriptions, size_t number)
{
    const char *value = reply_text(reply_at(subscriptions->list, number * LIST_STEP + LIST_VALUE));

    return value != NULL ? value : "";
}

static size_t
list_count(const struct subscriptions *subscriptions)
{
    return reply_count(subscriptions->list) / LIST_STEP;
}

static bool
is_in_shard(const struct subscriptions *subscriptions, size_t number, const struct shard *shard)
{
    return shard_of_endpoint(subscriptions->request.store, id_at(subscriptions, number)) == shard;
}

static void
send_checks(struct subscriptions *subscriptions)
{
    struct store *store = subscriptions->request.store;
    size_t count = list_count(subscriptions);

    subscriptions->is_bound = memory_new(count + 1);
    subscriptions->failures = memory_new((count + 1) * sizeof(*subscriptions->failures));
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct shard *shard = &store->shards[k];
        struct arguments arguments = {.argc = 0};
        size_t sent = 0;

        shard_arguments(shard, &arguments);
        argument(&arguments, subscriptions->user);
        for (size_t i = 0; i < count; i++) {
            if (!is_in_shard(subscriptions, i, shard))
                continue;
            argument(&arguments, id_at(subscriptions, i));
            sent++;
        }
        if (sent > 0)
            shard_request_send_script(&subscriptions->request, shard, STORE_SCRIPT_check_endpoints,
                                      1, &arguments);
        else
            arguments_free(&arguments);
    }
}

static char *
copy_text(const struct redisReply *reply)
{
    const char *text = reply_text(reply);

    return text != NULL ? memory_text(text, strlen(text)) : NULL;
}

/* An endpoint of another user is removed from the list, unless it was saved again meanwhile. */
static bool
handle_checks(struct subscriptions *subscriptions, const struct shard *shard,
              const struct redisReply *reply)
{
    size_t count = list_count(subscriptions), at = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_in_shard(subscriptions, i, shard))
            continue;
        if (!reply_is_integer(reply_at(reply, at + CHECK_IS_BOUND)))
            return false;
        subscriptions->is_bound[i] = reply_integer(reply_at(reply, at + CHECK_IS_BOUND)) == 1;
        subscriptions->failures[i] = copy_text(reply_at(reply, at + CHECK_FAILURE));
        at += CHECK_STEP;
        if (!subscriptions->is_bound[i])
            send_to_list(subscriptions, "remove", id_at(subscriptions, i),
                         value_at(subscriptions, i), NULL);
    }
    return true;
}

static bool
on_list_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct subscriptions *subscriptions = (struct subscriptions *)request;

    if (!reply_is_array(reply, 0))
        return false;
    if (subscriptions->list == NULL) {
        subscriptions->list = reply_keep(reply);
        send_checks(subscriptions);
        return true;
    }
    /* The reply to a removal is a list of strings, which is ignored. */
    return !reply_is_integer(reply_at(reply, 0)) || handle_checks(subscriptions, shard, reply);
}

static void
finish_list(struct shard_request *request, enum rc rc)
{
    struct subscriptions *subscriptions = (struct subscriptions *)request;
    size_t total = rc == RC_OK ? list_count(subscriptions) : 0, count = 0;

    subscriptions->bound = memory_new((total + 1) * sizeof(*subscriptions->bound));
    for (size_t i = 0; i < total; i++) {
        const char *value = value_at(subscriptions, i), *text = strchr(value, ' ');
        const char *failure = subscriptions->failures[i];
        const char *reason = failure != NULL ? strchr(failure, ' ') : NULL;

        if (subscriptions->is_bound[i] && text != NULL)
            subscriptions->bound[count++] = (struct store_subscription){
                .id = id_at(subscriptions, i),
                .text = text + 1,
                .renewed_ms = strtoll(value, NULL, 10),
                .failed_ms = reason != NULL ? strtoll(failure, NULL, 10) : 0,
                .reason = reason != NULL ? reason + 1 : ""};
    }
    subscriptions->listed(subscriptions->ctx, rc, subscriptions->bound, count);
}

static void
release_list(struct shard_request *request)
{
    struct subscriptions *subscriptions = (struct subscriptions *)request;

    for (size_t i = 0; subscriptions->failures != NULL && i < list_count(subscriptions); i++)
        free(subscriptions->failures[i]);
    free(subscriptions->failures);
    free((void *)subscriptions->list);
    release(request);
}

static const struct shard_request_kind list_kind = {.failure =
                                                        "could not read Web Push subscriptions",
                                                    .on_reply = on_list_reply,
                                                    .finish = finish_list,
                                                    .release = release_list};

enum rc
store_subscriptions(struct store *store, const char *user, store_listed *done, void *ctx)
{
    struct subscriptions *subscriptions;

    if (!store->is_up)
        return RC_AGAIN;
    subscriptions = subscriptions_new(store, &list_kind, user, ctx);
    subscriptions->listed = done;
    send_to_list(subscriptions, "read", NULL, NULL, NULL);
    return shard_request_sent(&subscriptions->request);
}

/* ---- the last failure of an endpoint, in the endpoint's shard */

static const struct shard_request_kind failure_kind = {
    .failure = "could not store the failure of a push service"};

enum rc
store_save_push_failure(struct store *store, const char *endpoint, int64_t failed_ms,
                        const char *reason, store_acked *done, void *ctx)
{
    char key[STORE_KEY_MAX], value[FAILURE_MAX], id[SUBSCRIPTION_ID_TEXT + 1];
    struct shard *shard;

    if (!store->is_up)
        return RC_AGAIN;
    subscription_id(endpoint, id);
    shard = shard_of_endpoint(store, id);
    key_write_of(key, sizeof(key), shard->prefix, KEY_PUSH_FAILURE, id);
    snprintf(value, sizeof(value), "%lld %s", (long long)failed_ms, reason);
    return shard_request_set(&failure_kind, shard, key, bytes_of_text(value),
                             store->config->webpush.keep_ms, done, ctx);
}
