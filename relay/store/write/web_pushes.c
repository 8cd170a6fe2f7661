/* web_pushes.c: the queue of Web Pushes, one for each notification and user. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

struct web_push_call {
    struct shard_request request;
    unsigned shard;
    store_web_pushes_leased *on_leased;
    store_push_ticket_known *on_ticket;
};

static struct web_push_call *
call_new(struct store *store, const struct shard_request_kind *kind, unsigned shard, void *ctx)
{
    struct web_push_call *call = shard_request_new(sizeof(*call), store, kind);

    call->shard = shard;
    call->request.ctx = ctx;
    return call;
}

/* Positions in the arrays that lease_web_pushes.lua returns. */
enum {
    LEASED_ID,
    LEASED_USER,
    LEASED_TEXT,
    LEASED_URGENCY,
    LEASED_COMMIT,
    LEASED_EXPIRES,
    LEASED_STATE,
    LEASED_ACK,
    LEASED_SINCE
};

/* Positions in its reply. */
enum { QUEUE_BACKLOG, QUEUE_OLDEST, QUEUE_EXPIRED, QUEUE_LEASED, QUEUE_FIELDS };

static bool
is_queue(const struct redisReply *reply)
{
    return reply_is_array(reply, QUEUE_FIELDS);
}

static const char *
text_at(const struct redisReply *fields, size_t at)
{
    const char *text = reply_text(reply_at(fields, at));

    return text != NULL ? text : "";
}

static void
finish_leased(struct shard_request *request, enum rc rc)
{
    struct web_push_call *call = (struct web_push_call *)request;
    const struct redisReply *rows = rc == RC_OK ? reply_at(request->reply, QUEUE_LEASED) : NULL;
    size_t count = rows != NULL ? reply_count(rows) : 0;
    struct store_web_push *pushes = memory_new((count + 1) * sizeof(*pushes));
    struct store_web_pushes queue = {.leased = pushes, .count = count};

    for (size_t i = 0; i < count; i++) {
        const struct redisReply *fields = reply_at(rows, i);

        pushes[i] = (struct store_web_push){
            .id = text_at(fields, LEASED_ID),
            .user = text_at(fields, LEASED_USER),
            .text = text_at(fields, LEASED_TEXT),
            .urgency = text_at(fields, LEASED_URGENCY),
            .state = text_at(fields, LEASED_STATE),
            .commit_ms = strtoll(text_at(fields, LEASED_COMMIT), NULL, 10),
            .expires_ms = strtoll(text_at(fields, LEASED_EXPIRES), NULL, 10),
            .since_ms = strtoll(text_at(fields, LEASED_SINCE), NULL, 10),
            .shard = call->shard,
            .needs_ack = strcmp(text_at(fields, LEASED_ACK), "1") == 0,
        };
    }
    if (rc == RC_OK) {
        queue.backlog = (uint64_t)reply_integer(reply_at(request->reply, QUEUE_BACKLOG));
        queue.oldest_ms = reply_integer(reply_at(request->reply, QUEUE_OLDEST));
        queue.expired = (uint64_t)reply_integer(reply_at(request->reply, QUEUE_EXPIRED));
    }
    call->on_leased(request->ctx, rc, &queue);
    free(pushes);
}

static const struct shard_request_kind lease_kind = {
    .failure = "could not lease Web Pushes", .is_valid = is_queue, .finish = finish_leased};

enum rc
store_lease_web_pushes(struct store *store, unsigned shard, int64_t lease_ms, unsigned max,
                       store_web_pushes_leased *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    struct web_push_call *call;

    if (!store->is_up || !store->shards[shard].is_up)
        return RC_AGAIN;
    call = call_new(store, &lease_kind, shard, ctx);
    call->on_leased = done;
    shard_arguments(&store->shards[shard], &arguments);
    argument_number(&arguments, lease_ms);
    argument_number(&arguments, max);
    shard_request_send_script(&call->request, &store->shards[shard], STORE_SCRIPT_lease_web_pushes,
                              1, &arguments);
    return shard_request_sent(&call->request);
}

static const struct shard_request_kind end_kind = {.failure = "could not end a Web Push",
                                                   .is_valid = reply_is_integer};

enum rc
store_end_web_push(struct store *store, const struct store_web_push *push, int64_t delay_ms,
                   bool is_accepted, store_acked *done, void *ctx)
{
    struct shard *shard = &store->shards[push->shard];
    struct arguments arguments = {.argc = 0};
    struct shard_request *request;

    if (!store->is_up || !shard->is_up)
        return RC_AGAIN;
    request = shard_request_new(sizeof(*request), store, &end_kind);
    request->acked = done;
    request->ctx = ctx;
    shard_arguments(shard, &arguments);
    argument(&arguments, push->id);
    argument(&arguments, push->user);
    if (delay_ms >= 0)
        argument_number(&arguments, delay_ms);
    else
        argument(&arguments, "");
    argument(&arguments, push->state);
    argument(&arguments, is_accepted ? "1" : "");
    argument(&arguments, store->script_settings.retention);
    shard_request_send_script(request, shard, STORE_SCRIPT_end_web_push, 1, &arguments);
    return shard_request_sent(request);
}

/* ---- tickets */

static const struct shard_request_kind save_kind = {.failure =
                                                        "could not store a ticket of a Web Push"};

enum rc
store_save_push_ticket(struct store *store, const char *ticket, const char *id, const char *user,
                       int64_t lifetime_ms, store_acked *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    const size_t room = strlen(id) + strlen(user) + 2;
    char key[STORE_KEY_MAX], *value;
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    key_write_of(key, sizeof(key), shard->prefix, KEY_PUSH_TICKET, ticket);
    value = memory_new(room);
    snprintf(value, room, "%s %s", id, user);
    rc = shard_request_set(&save_kind, shard, key, bytes_of_text(value), lifetime_ms, done, ctx);
    free(value);
    return rc;
}

static void
finish_ticket(struct shard_request *request, enum rc rc)
{
    const struct web_push_call *call = (struct web_push_call *)request;
    bool is_known = rc == RC_OK && reply_is_array(request->reply, 2);

    if (rc == RC_OK && !is_known)
        rc = RC_BAD;
    call->on_ticket(request->ctx, rc, is_known ? text_at(request->reply, 0) : "",
                    is_known ? text_at(request->reply, 1) : "");
}

static const struct shard_request_kind ticket_kind = {
    .failure = "could not redeem a ticket of a Web Push", .finish = finish_ticket};

enum rc
store_push_ticket(struct store *store, const char *ticket, bool is_used,
                  store_push_ticket_known *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    struct web_push_call *call;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(store, &ticket_kind, 0, ctx);
    call->on_ticket = done;
    shard_arguments(&store->shards[0], &arguments);
    argument(&arguments, ticket);
    argument(&arguments, is_used ? "1" : "");
    shard_request_send_script(&call->request, &store->shards[0], STORE_SCRIPT_push_ticket, 1,
                              &arguments);
    return shard_request_sent(&call->request);
}
