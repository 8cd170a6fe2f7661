/* dial.h: begins a connection to the store: finds the host, connects, begins TLS. */
#ifndef CLAIRON_STORE_DIAL_H
#define CLAIRON_STORE_DIAL_H

#include "base/config.h"
#include "store/address.h"

struct ev_loop;
struct redisAsyncContext;
struct resolve;

/* A connection under way, the caller's; NULL: `reason` says why there is none. */
typedef void dial_done(void *ctx, struct redisAsyncContext *redis, const char *reason);

struct dial {
    struct ev_loop *loop;
    const struct config *config;
    const struct address *address;
    dial_done *done;
    void *ctx;
    unsigned
        failures; /* in a row, for the owner to count: of several addresses the next is tried */
    struct resolve *resolve; /* while they are looked up */
};

/* Calls back once, at once or from the loop, unless dial_stop comes first. */
void dial_start(struct dial *dial);
void dial_stop(struct dial *dial);

#endif
