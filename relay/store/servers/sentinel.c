/* sentinel.c: queries the sentinels for the primary, and follows their failovers. */
#include "store/servers/sentinel.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/urls.h"
#include "store/connection/reply.h"
#include "store/servers/servers_private.h"
#include "store/timeouts.h"

#define PORT_MAX 65535

/* A reply's strings end with a zero byte. */
long long
sentinel_read_number(const struct redisReply *reply, const char *name)
{
    const struct bytes field = reply_field(reply, name);

    return field.at != NULL ? strtoll((const char *)field.at, NULL, 10) : -1;
}

enum rc
sentinel_read_server(const struct redisReply *reply, struct slots_node *ret_node)
{
    const struct bytes host = reply_field(reply, "ip");
    const long long port = sentinel_read_number(reply, "port");

    if (host.len == 0 || host.len >= SLOTS_HOST_MAX || port < 1 || port > PORT_MAX)
        return RC_BAD;
    snprintf(ret_node->host, SLOTS_HOST_MAX, "%.*s", (int)host.len, (const char *)host.at);
    ret_node->port = (int)port;
    return RC_OK;
}

enum rc
sentinel_read_primary(const struct redisReply *reply, struct sentinel_primary *ret_primary)
{
    const char *flags = (const char *)reply_field(reply, "flags").at;
    struct sentinel_primary primary = {.epoch = sentinel_read_number(reply, "config-epoch")};

    if (flags == NULL || primary.epoch < 0 || sentinel_read_server(reply, &primary.server) != RC_OK)
        return RC_BAD;
    primary.is_down = strstr(flags, "_down") != NULL;
    primary.is_switching = strstr(flags, "failover_in_progress") != NULL;
    *ret_primary = primary;
    return RC_OK;
}

void
sentinel_credentials(const struct config *config, struct url *address)
{
    const char *user = config->store.sentinel_user, *password = config->store.sentinel_password;

    explicit_bzero(address->user, sizeof(address->user));
    explicit_bzero(address->password, sizeof(address->password));
    if (user != NULL)
        snprintf(address->user, sizeof(address->user), "%s", user);
    if (password != NULL)
        snprintf(address->password, sizeof(address->password), "%s", password);
}

_Static_assert(SERVERS_NODES_MAX <= 64, "outdated_sentinels has a bit for each sentinel");

/* A subscription to the failovers that one sentinel announces. */
struct subscription {
    struct servers *servers;
    size_t number; /* number of the sentinel */
    struct query *query;
    ev_timer again;
};

struct sentinels {
    sentinels_announced *announced;
    size_t count;
    struct subscription subscriptions[];
};

/*
 * Each failover raises the epoch, and needs the votes of a majority. So a sentinel with a lower
 * epoch missed a failover; if a majority has lower epochs, the sentinels were reset, even if one of
 * them never replies. With one seed, such as the name of a service with several sentinels, every
 * reply is a majority. A reply with the current epoch clears the bits of all sentinels, because it
 * shows that not all of them were reset.
 */
static bool
is_outdated(struct servers *servers, const struct sentinel_primary *primary)
{
    if (primary->epoch < servers->epoch) {
        size_t outdated;

        servers->outdated_sentinels |= UINT64_C(1) << servers->at;
        outdated = (size_t)__builtin_popcountll(servers->outdated_sentinels);
        if (primary->is_down || outdated <= servers->seed_count / 2)
            return true;
    }
    servers->outdated_sentinels = 0;
    servers->epoch = primary->epoch;
    return false;
}

/* Before it announces its failover, a sentinel returns the former primary with the new epoch. */
static enum rc
read_primary(struct servers *servers, const struct redisReply *reply)
{
    struct sentinel_primary primary;

    if (sentinel_read_primary(reply, &primary) != RC_OK)
        return RC_BAD;
    if (primary.is_switching || is_outdated(servers, &primary))
        return RC_AGAIN;
    for (unsigned k = 0; k < servers->shard_count; k++) {
        servers->found[k].is_known = true;
        servers->found[k].server = primary.server;
    }
    return RC_OK;
}

const struct servers_kind servers_sentinel = {
    .source = "sentinels", .is_final = true, .read = read_primary};

/* "<primary name> <old host> <old port> <new host> <new port>" */
static bool
is_of_primary(const struct servers *servers, struct bytes text)
{
    const char *name = urls_rest(servers->config->store.url);
    const size_t len = strlen(name);

    return text.len > len && memcmp(text.at, name, len) == 0 && text.at[len] == ' ';
}

static void
on_message(void *ctx, const struct redisReply *reply, const char *error)
{
    struct subscription *subscription = ctx;
    struct servers *servers = subscription->servers;

    if (reply == NULL) {
        log_debug("store", "subscription to a sentinel ended", LOG_TEXT("error", error));
        subscription->query = NULL;
        ev_timer_set(&subscription->again, SENTINEL_RECONNECT_S, 0.0);
        ev_timer_start(servers->loop, &subscription->again);
    } else if (reply_is_integer(reply_at(reply, 2)) ||
               is_of_primary(servers, reply_bytes(reply_at(reply, 2)))) {
        /*
         * A failover was announced, or the subscription has started and may have missed failovers.
         */
        servers->sentinels->announced(servers, subscription->number);
    }
}

static void
subscribe(struct ev_loop *loop, ev_timer *timer, int events)
{
    static const char *const words[QUERY_WORDS_MAX] = {"SUBSCRIBE", "+switch-master"};
    struct subscription *subscription = timer->data;
    struct servers *servers = subscription->servers;
    const struct slots_node *node = &servers->seeds[subscription->number];
    struct url address = servers->as_queried;

    (void)events;
    snprintf(address.host, sizeof(address.host), "%s", node->host);
    address.port = node->port;
    subscription->query = query_start(loop, servers->config, &address, words,
                                      SENTINEL_SUBSCRIBE_TIMEOUT_S, on_message, subscription);
    explicit_bzero(&address, sizeof(address));
}

struct sentinels *
sentinels_open(struct servers *servers, sentinels_announced *announced)
{
    const size_t count = servers->seed_count;
    struct sentinels *sentinels =
        memory_new(sizeof(*sentinels) + count * sizeof(*sentinels->subscriptions));

    sentinels->announced = announced;
    sentinels->count = count;
    for (size_t i = 0; i < count; i++) {
        struct subscription *subscription = &sentinels->subscriptions[i];

        subscription->servers = servers;
        subscription->number = i;
        ev_timer_init(&subscription->again, subscribe, 0.0, 0.0);
        subscription->again.data = subscription;
        ev_timer_start(servers->loop, &subscription->again);
    }
    return sentinels;
}

void
sentinels_close(struct sentinels *sentinels)
{
    if (sentinels == NULL)
        return;
    for (size_t i = 0; i < sentinels->count; i++) {
        query_stop(sentinels->subscriptions[i].query);
        ev_timer_stop(sentinels->subscriptions[i].servers->loop,
                      &sentinels->subscriptions[i].again);
    }
    free(sentinels);
}
