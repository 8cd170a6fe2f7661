/*
 * connect.h: opens a connection to the store (addresses of the host, TLS), and sends a single
 * command (query) over one.
 */
#ifndef CLAIRON_STORE_CONNECT_H
#define CLAIRON_STORE_CONNECT_H

#include <stdbool.h>

#include "base/config.h"
#include "base/rc.h"
#include "base/urls.h"

struct ev_loop;
struct query;
struct redisAsyncContext;
struct redisReply;
struct reply_arena;
struct resolve;
struct send_queue;

/* A connection. The owner sets all members but the last two. */
struct connect {
    struct ev_loop *loop;
    const struct config *config;
    const struct url *address;
    struct send_queue *queue;  /* sends its commands; the owner frees it */
    struct reply_arena *arena; /* memory of its replies; NULL: that of hiredis */
    const unsigned *expected;  /* with an arena: number of outstanding replies */
    void (*on_up)(void *ctx);
    /* It could not be established, or was lost. */
    void (*on_down)(void *ctx, const char *reason);
    void *ctx;
    /* consecutive failures, counted by the owner: selects the next address */
    unsigned failures;
    struct redisAsyncContext *redis; /* its `data` is this struct; NULL: not connected */
    struct resolve *resolve;         /* during name resolution */
};

/*
 * Connects. on_down may be called by this function, on_up only from the loop; neither is called
 * after connect_stop.
 */
void connect_start(struct connect *connect);
/* Closes the connection: outstanding replies are NULL. */
void connect_stop(struct connect *connect);

#define QUERY_WORDS_MAX 3

/*
 * A query is one command to a server, over a connection of its own. A reply, valid during the call;
 * SUBSCRIBE has several. NULL: the query failed with `error`, and is freed after the call.
 */
typedef void query_reply(void *ctx, const struct redisReply *reply, const char *error);

/*
 * Authenticates with `address`, and sends the words up to NULL; they must outlive the query. It
 * fails unless the first reply arrives within `timeout_s`. Callbacks run only from the loop.
 */
struct query *query_start(struct ev_loop *loop, const struct config *config,
                          const struct url *address, const char *const words[QUERY_WORDS_MAX],
                          double timeout_s, query_reply *reply, void *ctx);
/* Stops all callbacks, and may be called by a callback. Accepts NULL. */
void query_stop(struct query *query);

#endif
