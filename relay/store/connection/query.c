/* query.c: sends one command to a server over a separate connection. */
#include "store/connection/query.h"

#include <ev.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/connect.h"
#include "store/connection/reply.h"
#include "store/connection/send_queue.h"

#define QUERY_ERROR_MAX 256

struct query {
    struct ev_loop *loop;
    struct url address;
    struct connect connect;
    redisAsyncContext *redis; /* its `data` is this query; NULL: not connected */
    struct send_queue *queue;
    ev_timer timer; /* starts the query, then serves as its reply timeout */
    bool has_started;
    double timeout_s;
    const char *words[QUERY_WORDS_MAX];
    int word_count;
    query_reply *reply;
    void *ctx;
};

void
query_stop(struct query *query)
{
    redisAsyncContext *redis;

    if (query == NULL)
        return;
    redis = query->redis;
    connect_stop(&query->connect);
    ev_timer_stop(query->loop, &query->timer);
    if (redis != NULL) {
        redis->data = NULL;
        redisAsyncFree(redis);
    }
    send_queue_end(query->queue);
    send_queue_free(query->queue);
    explicit_bzero(&query->address, sizeof(query->address));
    free(query);
}

/* `error` may point into the connection. */
static void
fail_query(struct query *query, const char *error)
{
    query_reply *reply = query->reply;
    void *ctx = query->ctx;
    char kept[QUERY_ERROR_MAX];

    snprintf(kept, sizeof(kept), "%s", error);
    query_stop(query);
    reply(ctx, NULL, kept);
}

static void
on_query_reply(redisAsyncContext *redis, void *reply, void *ctx)
{
    struct query *query = redis->data;

    (void)ctx;
    if (query == NULL || reply == NULL)
        return; /* the query was stopped, or on_query_disconnected reports the reason */
    ev_timer_stop(query->loop, &query->timer);
    if (reply_is_error(reply))
        fail_query(query, reply_text(reply));
    else
        query->reply(query->ctx, reply, NULL);
}

static void
on_query_authenticated(redisAsyncContext *redis, void *reply, void *ctx)
{
    (void)ctx;
    if (redis->data != NULL && reply_is_error(reply))
        fail_query(redis->data, reply_text(reply));
}

static enum rc
send_words(struct query *query)
{
    const struct url *address = &query->address;
    const char *auth[3] = {"AUTH", address->user, address->password};
    const bool has_user = address->user[0] != '\0';

    if (!has_user)
        auth[1] = address->password;
    if (address->password[0] != '\0' && send_queue_send(query->queue, on_query_authenticated, NULL,
                                                        has_user ? 3 : 2, auth, NULL) != RC_OK)
        return RC_AGAIN;
    return send_queue_send(query->queue, on_query_reply, NULL, query->word_count, query->words,
                           NULL);
}

static void
on_query_connected(const redisAsyncContext *redis, int status)
{
    struct query *query = redis->data;

    if (query == NULL)
        return;
    if (status != REDIS_OK) {
        query->redis = NULL; /* hiredis frees it after this callback */
        fail_query(query, redis->errstr);
    } else if (send_words(query) != RC_OK) {
        fail_query(query, "could not send a command");
    }
}

static void
on_query_disconnected(const redisAsyncContext *redis, int status)
{
    struct query *query = redis->data;

    if (query == NULL)
        return;
    query->redis = NULL;
    fail_query(query, status == REDIS_OK || redis->errstr == NULL ? "closed" : redis->errstr);
}

static void
on_query_started(void *ctx, redisAsyncContext *redis, const char *reason)
{
    struct query *query = ctx;

    if (redis == NULL) {
        fail_query(query, reason);
        return;
    }
    query->redis = redis;
    redis->data = query;
    send_queue_use(query->queue, redis);
    redisAsyncSetConnectCallback(redis, on_query_connected);
    redisAsyncSetDisconnectCallback(redis, on_query_disconnected);
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct query *query = timer->data;

    (void)events;
    if (query->has_started) {
        fail_query(query, "reply timed out");
        return;
    }
    query->has_started = true;
    ev_timer_set(timer, query->timeout_s, 0.0);
    ev_timer_start(loop, timer);
    connect_start(&query->connect);
}

struct query *
query_start(struct ev_loop *loop, const struct config *config, const struct url *address,
            const char *const words[QUERY_WORDS_MAX], double timeout_s, query_reply *reply,
            void *ctx)
{
    struct query *query = memory_new(sizeof(*query));

    query->loop = loop;
    query->address = *address;
    query->connect = (struct connect){.loop = loop,
                                      .config = config,
                                      .address = &query->address,
                                      .done = on_query_started,
                                      .ctx = query};
    query->queue = send_queue_new(loop);
    query->timeout_s = timeout_s;
    query->reply = reply;
    query->ctx = ctx;
    while (query->word_count < QUERY_WORDS_MAX && words[query->word_count] != NULL) {
        query->words[query->word_count] = words[query->word_count];
        query->word_count++;
    }
    ev_timer_init(&query->timer, on_timer, 0.0, 0.0);
    query->timer.data = query;
    ev_timer_start(loop, &query->timer);
    return query;
}
