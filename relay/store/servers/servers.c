/* servers.c: the server of each shard, updated by queries to the nodes in turn. */
#include "store/servers/servers.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config/config_check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/urls.h"
#include "store/connection/fault.h"
#include "store/servers/sentinel_reply.h"
#include "store/servers/servers_private.h"
#include "store/servers/topology.h"

#define REFRESH_S 10.0
#define SEARCH_BASE_MS 100
#define SEARCH_CAP_MS 500
#define QUERY_TIMEOUT_S 1.0

static bool
is_searching(const struct servers *servers)
{
    for (const struct servers_user *user = servers->users; user != NULL; user = user->next)
        if (user->searches)
            return true;
    return false;
}

/* Retries quickly while a connection searches for its server. */
static void
schedule(struct servers *servers)
{
    double delay_s = REFRESH_S;

    if (is_searching(servers))
        delay_s = (double)backoff_next_ms(&servers->backoff) / 1000.0;
    else
        backoff_reset(&servers->backoff);
    ev_timer_stop(servers->loop, &servers->again);
    ev_timer_set(&servers->again, delay_s, 0.0);
    ev_timer_start(servers->loop, &servers->again);
}

static void
notify_users(struct servers *servers, bool has_moved)
{
    struct servers_user *next;

    for (struct servers_user *user = servers->users; user != NULL; user = next) {
        next = user->next;
        if (user->searches || has_moved)
            user->on_found(user->ctx, servers->kind->is_final);
    }
}

/* Sentinels have separate credentials. */
static const char *
hint_of(const struct servers *servers, const char *error)
{
    const char *hint = fault_hint(error);

    if (servers->kind == &servers_sentinel && hint != NULL && strstr(hint, "password") != NULL)
        return "[store] sentinel_user and sentinel_password_file must match the sentinels; "
               "unset them if the sentinels have no password";
    return hint;
}

/* Logged if no node has replied. */
static void
log_search_failure(struct servers *servers, const char *error)
{
    const int64_t now_us = clock_monotonic_us();
    const struct slots_node *node = &servers->nodes[servers->at];

    if (servers->failures < servers->node_count ||
        (servers->warned_us != 0 && now_us - servers->warned_us < SERVERS_WARN_EVERY_US))
        return;
    servers->warned_us = now_us;
    log_warn("store", "could not find the primaries of the store",
             LOG_TEXT("source", servers->kind->source), LOG_TEXT("error", error),
             LOG_TEXT("hint", hint_of(servers, error)), LOG_TEXT("host", node->host),
             LOG_INT("port", node->port), LOG_UINT("nodes", servers->node_count));
}

static void
on_query(void *ctx, const struct redisReply *reply, const char *error)
{
    struct servers *servers = ctx;
    struct query *query = servers->query;
    enum rc rc = RC_BAD;

    servers->query = NULL;
    memcpy(servers->found, servers->shards, sizeof(servers->found));
    if (reply != NULL) {
        rc = servers->kind->read(servers, reply);
        error = "invalid reply";
        query_stop(query);
    }
    if (rc == RC_OK) {
        servers->failures = 0;
        servers->warned_us = 0;
        notify_users(servers, servers_adopt_found(servers));
    } else if (rc == RC_BAD) {
        servers->failures++;
        snprintf(servers->failure, sizeof(servers->failure),
                 "could not connect to the store (%s:%d): %s", servers->nodes[servers->at].host,
                 servers->nodes[servers->at].port, error);
        log_search_failure(servers, error);
    }
    schedule(servers);
}

static void
start_query(struct servers *servers)
{
    const struct slots_node *node = &servers->nodes[servers->at];
    struct url address = servers->as_queried;

    snprintf(address.host, sizeof(address.host), "%s", node->host);
    address.port = node->port;
    ev_timer_stop(servers->loop, &servers->again);
    servers->query = query_start(servers->loop, servers->config, &address, servers->words,
                                 QUERY_TIMEOUT_S, on_query, servers);
    explicit_bzero(&address, sizeof(address));
}

/* Queries this node immediately, instead of the next node later. */
static void
query_now(struct servers *servers, size_t node)
{
    query_stop(servers->query);
    servers->at = node;
    start_query(servers);
}

/* Queries a different node each time, because a node may be outdated or unreachable. */
static void
on_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct servers *servers = timer->data;

    (void)loop;
    (void)events;
    servers->at = (servers->at + 1) % servers->node_count;
    start_query(servers);
}

void
servers_recheck(struct servers *servers, struct servers_user *user)
{
    bool is_first = !is_searching(servers);

    user->searches = true;
    if (servers->kind != NULL && is_first && servers->query == NULL)
        schedule(servers);
}

void
servers_confirm(struct servers *servers, struct servers_user *user)
{
    (void)servers; /* a query in flight is not followed by another query */
    user->searches = false;
}

void
servers_join(struct servers *servers, struct servers_user *user)
{
    user->next = servers->users;
    servers->users = user;
    servers_recheck(servers, user);
}

void
servers_leave(struct servers *servers, struct servers_user *user)
{
    struct servers_user **link = &servers->users;

    while (*link != user)
        link = &(*link)->next;
    *link = user->next;
}

enum rc
servers_find(const struct servers *servers, unsigned shard, struct url *ret_address)
{
    const struct servers_shard *found = &servers->shards[shard];

    if (servers->kind == NULL) {
        *ret_address = servers->single;
        return RC_OK;
    }
    if (!found->is_known)
        return RC_AGAIN;
    *ret_address = servers->as_server;
    snprintf(ret_address->host, sizeof(ret_address->host), "%s", found->server.host);
    ret_address->port = found->server.port;
    return RC_OK;
}

bool
servers_is_new_failure(struct servers *servers, const struct url *address)
{
    const int64_t now_us = clock_monotonic_us();
    struct servers_failure *next = &servers->failed[servers->next_failed % SERVERS_FAILURES];
    char server[URL_FORMAT_MAX];

    if (servers->kind == NULL)
        return true;
    url_format(address, server);
    for (size_t i = 0; i < SERVERS_FAILURES; i++) {
        const struct servers_failure *failed = &servers->failed[i];

        if (failed->at_us != 0 && now_us - failed->at_us < SERVERS_WARN_EVERY_US &&
            strcmp(failed->server, server) == 0)
            return false;
    }
    memcpy(next->server, server, sizeof(server));
    next->at_us = now_us;
    servers->next_failed++;
    return true;
}

const char *
servers_failure(const struct servers *servers)
{
    return servers->kind != NULL && servers->failures >= servers->node_count ? servers->failure
                                                                             : NULL;
}

bool
servers_can_move(const struct servers *servers)
{
    return servers->kind != NULL;
}

static enum rc
read_seeds(struct servers *servers, const char *urls)
{
    const unsigned count = urls_count(urls);
    struct url address = {.port = 0};
    enum rc rc = RC_OK;

    for (unsigned i = 0; i < count && rc == RC_OK; i++) {
        char *url = urls_at(urls, i);
        struct slots_node seed;

        rc = url_read(url, &address);
        explicit_bzero(url, strlen(url));
        free(url);
        if (rc != RC_OK || strlen(address.host) >= sizeof(seed.host))
            return RC_BAD;
        memcpy(seed.host, address.host, strlen(address.host) + 1);
        seed.port = address.port;
        servers->seed_count =
            slots_add_node(servers->seeds, servers->seed_count, SERVERS_NODES_MAX, &seed);
    }
    servers->single = servers->as_server = servers->as_queried = address;
    memcpy(servers->nodes, servers->seeds, sizeof(servers->nodes));
    servers->node_count = servers->seed_count;
    explicit_bzero(&address, sizeof(address));
    return rc;
}

/* The URL contains the servers' password. */
static void
use_sentinels(struct servers *servers)
{
    const struct config *config = servers->config;

    servers->kind = &servers_sentinel;
    servers->words[0] = "SENTINEL";
    servers->words[1] = "MASTER";
    servers->words[2] = urls_rest(config->store.url);
    sentinel_credentials(config, &servers->as_queried);
    servers->sentinels = sentinels_open(servers, query_now);
}

static void
use_cluster(struct servers *servers, const struct topology *topology)
{
    servers->kind = &servers_cluster;
    servers->words[0] = "CLUSTER";
    servers->words[1] = "SLOTS";
    for (unsigned k = 0; k < servers->shard_count; k++)
        servers->shards[k].slot = topology_slot(topology, servers->config->store.prefix, k);
}

struct servers *
servers_open(struct ev_loop *loop, const struct config *config)
{
    const struct topology topology = topology_of(config);
    const enum urls_kind kind = urls_kind(config->store.url);
    struct servers *servers = memory_new(sizeof(*servers));

    servers->loop = loop;
    servers->config = config;
    servers->shard_count = topology.shards;
    servers->backoff = (struct backoff){SEARCH_BASE_MS, SEARCH_CAP_MS, 0};
    ev_timer_init(&servers->again, on_again, 0.0, 0.0);
    servers->again.data = servers;
    if (read_seeds(servers, config->store.url) != RC_OK) {
        log_error("store", "invalid store.url", LOG_TEXT("expected", CONFIG_URL_FORM));
        servers_close(servers);
        return NULL;
    }
    if (kind == URLS_SENTINEL)
        use_sentinels(servers);
    else if (kind == URLS_CLUSTER)
        use_cluster(servers, &topology);
    if (servers->kind != NULL)
        query_now(servers, 0);
    return servers;
}

void
servers_close(struct servers *servers)
{
    if (servers == NULL)
        return;
    sentinels_close(servers->sentinels);
    query_stop(servers->query);
    ev_timer_stop(servers->loop, &servers->again);
    explicit_bzero(servers, sizeof(*servers)); /* erases the passwords */
    free(servers);
}
