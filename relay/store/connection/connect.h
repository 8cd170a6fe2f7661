/* connect.h: opens a connection to the store: resolves the host, connects, starts TLS. */
#ifndef CLAIRON_STORE_CONNECT_H
#define CLAIRON_STORE_CONNECT_H

#include "base/config.h"
#include "store/connection/url.h"

struct ev_loop;
struct redisAsyncContext;
struct resolve;

/*
 * A connection in progress, owned by the callee. NULL: the connection failed, and `reason` is the
 * error.
 */
typedef void connect_done(void *ctx, struct redisAsyncContext *redis, const char *reason);

struct connect {
    struct ev_loop *loop;
    const struct config *config;
    const struct url *address;
    connect_done *done;
    void *ctx;
    /* consecutive failures, counted by the owner: selects the next address */
    unsigned failures;
    struct resolve *resolve; /* during name resolution */
};

/* Calls `done` once, immediately or from the loop, unless connect_stop is called first. */
void connect_start(struct connect *connect);
void connect_stop(struct connect *connect);

#endif
