/* connect.c: opens a connection to the store: resolves the host, connects, starts TLS. */
#include "store/connection/connect.h"

#include <hiredis/async.h>
#include <stdio.h>
#include <string.h>

#include "base/resolve.h"
#include "store/connection/tls.h"

static void
connect_host(struct connect *connect, const char *host)
{
    const struct url *address = connect->address;
    char reason[TLS_ERROR_MAX];
    redisAsyncContext *redis = address->path[0] != '\0' ? redisAsyncConnectUnix(address->path)
                                                        : redisAsyncConnect(host, address->port);

    if (redis != NULL && redis->err == 0 &&
        (!address->tls || tls_start(connect->config, address->host, &redis->c, reason) == RC_OK)) {
        connect->done(connect->ctx, redis, NULL);
        return;
    }
    if (redis == NULL || redis->err != 0)
        snprintf(reason, sizeof(reason), "%s", redis != NULL ? redis->errstr : "out of memory");
    if (redis != NULL)
        redisAsyncFree(redis);
    connect->done(connect->ctx, NULL, reason);
}

/* IPv4 first: a server that listens on only one address family usually uses IPv4. */
static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct connect *connect = ctx;
    const char *in_order[RESOLVE_ADDRESSES_MAX];
    size_t len = 0;

    connect->resolve = NULL;
    for (int is_ipv6 = 0; is_ipv6 <= 1; is_ipv6++)
        for (size_t i = 0; i < count && i < RESOLVE_ADDRESSES_MAX; i++)
            if ((strchr(found[i].address, ':') != NULL) == is_ipv6)
                in_order[len++] = found[i].address;
    if (len == 0)
        connect->done(connect->ctx, NULL, error);
    else
        connect_host(connect, in_order[connect->failures % len]);
}

void
connect_start(struct connect *connect)
{
    const char *host = connect->address->host;

    if (connect->address->path[0] == '\0' && resolve_is_needed(host))
        connect->resolve = resolve_start(connect->loop, &host, 1, on_resolved, connect);
    if (connect->resolve == NULL)
        connect_host(connect, host);
}

void
connect_stop(struct connect *connect)
{
    resolve_stop(connect->resolve);
    connect->resolve = NULL;
}
