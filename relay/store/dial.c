/* dial.c: begins a connection to the store: finds the host, connects, begins TLS. */
#include "store/dial.h"

#include <hiredis/async.h>
#include <stdio.h>
#include <string.h>

#include "base/resolve.h"
#include "store/secure.h"

static void
dial_host(struct dial *dial, const char *host)
{
    const struct address *address = dial->address;
    char reason[SECURE_ERROR_MAX];
    redisAsyncContext *redis = address->path[0] != '\0' ? redisAsyncConnectUnix(address->path)
                                                        : redisAsyncConnect(host, address->port);

    if (redis != NULL && redis->err == 0 &&
        (!address->tls || secure_start(dial->config, address->host, &redis->c, reason) == RC_OK)) {
        dial->done(dial->ctx, redis, NULL);
        return;
    }
    if (redis == NULL || redis->err != 0)
        snprintf(reason, sizeof(reason), "%s", redis != NULL ? redis->errstr : "out of memory");
    if (redis != NULL)
        redisAsyncFree(redis);
    dial->done(dial->ctx, NULL, reason);
}

/* Those of IPv4 first: what listens on one alone mostly does on that. */
static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct dial *dial = ctx;
    const char *in_order[RESOLVE_ADDRESSES_MAX];
    size_t len = 0;

    dial->resolve = NULL;
    for (int is_ipv6 = 0; is_ipv6 <= 1; is_ipv6++)
        for (size_t i = 0; i < count && i < RESOLVE_ADDRESSES_MAX; i++)
            if ((strchr(found[i].address, ':') != NULL) == is_ipv6)
                in_order[len++] = found[i].address;
    if (len == 0)
        dial->done(dial->ctx, NULL, error);
    else
        dial_host(dial, in_order[dial->failures % len]);
}

void
dial_start(struct dial *dial)
{
    const char *host = dial->address->host;

    if (dial->address->path[0] == '\0' && resolve_is_needed(host))
        dial->resolve = resolve_start(dial->loop, &host, 1, on_resolved, dial);
    if (dial->resolve == NULL)
        dial_host(dial, host);
}

void
dial_stop(struct dial *dial)
{
    resolve_stop(dial->resolve);
    dial->resolve = NULL;
}
