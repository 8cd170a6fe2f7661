/* connect.h: begins a connection to the store: finds the host, connects, begins TLS. */
#ifndef CLAIRON_STORE_CONNECT_H
#define CLAIRON_STORE_CONNECT_H

#include "base/config.h"
#include "store/connection/url.h"

struct ev_loop;
struct redisAsyncContext;
struct resolve;

/* A connection under way, the caller's; NULL: `reason` says why there is none. */
typedef void connect_done(void *ctx, struct redisAsyncContext *redis, const char *reason);

struct connect {
    struct ev_loop *loop;
    const struct config *config;
    const struct url *address;
    connect_done *done;
    void *ctx;
    unsigned
        failures; /* in a row, for the owner to count: of several addresses the next is tried */
    struct resolve *resolve; /* while they are looked up */
};

/* Calls back once, at once or from the loop, unless connect_stop comes first. */
void connect_start(struct connect *connect);
void connect_stop(struct connect *connect);

#endif
