/*
 * servers.c: the server of each shard, updated by queries to the nodes in turn, and by failovers
 * that sentinels announce.
 */
#include "store/servers/servers.h"

#include <ev.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/urls.h"
#include "store/connection/reply.h"
#include "store/servers/servers_private.h"
#include "store/servers/topology.h"
#include "store/timeouts.h"

/*
 * Reads the reply to CLUSTER SLOTS. For a slot without a primary, the last known primary is kept.
 * The nodes in the reply precede the seeds, which may have left the cluster.
 */
static enum rc
read_slots(struct servers *servers, const struct redisReply *reply)
{
    const struct slots_node queried = servers->nodes[servers->at];
    struct slots_node nodes[SERVERS_NODES_MAX];
    size_t count;

    if (!reply_is_array(reply, 1))
        return RC_BAD;
    for (unsigned k = 0; k < servers->shard_count; k++) {
        struct servers_shard *shard = &servers->found[k];

        if (slots_primary(reply, shard->slot, queried.host, &shard->server) == RC_OK)
            shard->is_known = true;
    }
    count = slots_nodes(reply, queried.host, nodes, SERVERS_NODES_MAX);
    for (size_t i = 0; i < servers->seed_count; i++)
        count = slots_add_node(nodes, count, SERVERS_NODES_MAX, &servers->seeds[i]);
    memcpy(servers->nodes, nodes, count * sizeof(*nodes));
    servers->node_count = count;
    servers->at = 0;
    for (size_t i = 0; i < count; i++)
        if (slots_is_same_node(&nodes[i], &queried))
            servers->at = i;
    return RC_OK;
}

const struct servers_kind servers_cluster = {
    .source = "cluster", .is_final = false, .read = read_slots};

/* ---- replies of sentinels */

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

/* ---- queries */

static bool
is_same_server(const struct servers_shard *a, const struct servers_shard *b)
{
    return a->is_known == b->is_known && slots_is_same_node(&a->server, &b->server);
}

/* One message per server: a failover moves all of its shards. */
static void
log_moves(const struct servers *servers, const bool *is_moved)
{
    const struct servers_shard *shards = servers->shards;

    for (unsigned k = 0; k < servers->shard_count; k++) {
        char list[SHARD_LIST_MAX] = "", server[URL_FORMAT_MAX];
        bool is_logged = !is_moved[k];

        for (unsigned i = 0; i < servers->shard_count && !is_logged; i++) {
            if (!is_moved[i] || !is_same_server(&shards[i], &shards[k]))
                continue;
            is_logged = i < k;
            shard_list_add(list, i);
        }
        if (is_logged)
            continue;
        snprintf(server, sizeof(server), "%s:%d", shards[k].server.host, shards[k].server.port);
        log_info("store", "shards moved to another server", LOG_TEXT("shards", list),
                 LOG_TEXT("server", server));
    }
}

static void
log_disagreement(struct servers *servers, unsigned shard, int64_t now_us)
{
    const struct slots_node *a = &servers->shards[shard].server, *b = &servers->found[shard].server;
    char first[URL_FORMAT_MAX], second[URL_FORMAT_MAX];
    unsigned suppressed;

    if (!throttle_allows(&servers->disagreed, now_us, &suppressed))
        return;
    snprintf(first, sizeof(first), "%s:%d", a->host, a->port);
    snprintf(second, sizeof(second), "%s:%d", b->host, b->port);
    log_warn("store", "nodes of the store disagree on the server of a shard",
             LOG_UINT("shard", shard), LOG_TEXT("server", first), LOG_TEXT("other_server", second),
             LOG_UINT("suppressed", suppressed),
             LOG_TEXT("hint", "if this continues, compare the nodes: redis-cli --cluster check "
                              "HOST:PORT"));
}

static void
log_uncovered(struct servers *servers, int64_t now_us)
{
    char list[SHARD_LIST_MAX] = "";
    unsigned suppressed;

    for (unsigned k = 0; k < servers->shard_count; k++)
        if (!servers->shards[k].is_known)
            shard_list_add(list, k);
    if (list[0] == '\0' || !throttle_allows(&servers->uncovered, now_us, &suppressed))
        return;
    log_warn("store", "shards have no primary: waiting", LOG_TEXT("shards", list),
             LOG_UINT("suppressed", suppressed),
             LOG_TEXT("hint", "no node has their slots: redis-cli --cluster check HOST:PORT"));
}

/*
 * Uses servers->found, and logs moves and shards without a server. True if a shard has moved; the
 * initial servers are not moves.
 */
static bool
adopt_found(struct servers *servers)
{
    bool is_moved[STORE_SHARDS_MAX] = {false};
    const int64_t now_us = clock_monotonic_us();
    bool has_moved = false;

    for (unsigned k = 0; k < servers->shard_count; k++) {
        const struct servers_shard *from = &servers->shards[k];
        struct servers_shard *to = &servers->found[k];

        if (!from->is_known || is_same_server(from, to))
            continue;
        has_moved = true;
        /*
         * If the shard has returned to its former server, the nodes of a cluster disagree.
         * Sentinels do not: their epochs order their replies.
         */
        is_moved[k] = servers->kind->is_final || from->moved_us == 0 ||
                      now_us - from->moved_us >= SERVERS_DISAGREE_US ||
                      !slots_is_same_node(&from->former, &to->server);
        if (!is_moved[k])
            log_disagreement(servers, k, now_us);
        to->former = from->server;
        to->moved_us = now_us;
    }
    memcpy(servers->shards, servers->found, sizeof(servers->shards));
    log_moves(servers, is_moved);
    log_uncovered(servers, now_us);
    return has_moved;
}

static bool
is_searching(const struct servers *servers)
{
    for (const struct servers_listener *listener = servers->listeners; listener != NULL;
         listener = listener->next)
        if (listener->searches)
            return true;
    return false;
}

/* Retries quickly while a link searches for its server. */
static void
schedule(struct servers *servers)
{
    double delay_s = SERVERS_REFRESH_S;

    if (is_searching(servers))
        delay_s = (double)backoff_next_ms(&servers->backoff) / 1000.0;
    else
        backoff_reset(&servers->backoff);
    ev_timer_stop(servers->loop, &servers->again);
    ev_timer_set(&servers->again, delay_s, 0.0);
    ev_timer_start(servers->loop, &servers->again);
}

/* Logged if no node has replied. */
static void
log_search_failure(struct servers *servers, const char *error)
{
    const struct slots_node *node = &servers->nodes[servers->at];
    const char *hint = fault_hint(error);
    unsigned suppressed;

    if (servers->failures < servers->node_count ||
        !throttle_allows(&servers->search_failed, clock_monotonic_us(), &suppressed))
        return;
    if (servers->kind == &servers_sentinel && hint != NULL && strstr(hint, "password") != NULL)
        hint = "[store] sentinel_user and sentinel_password_file must match the sentinels; unset "
               "them if the sentinels have no password";
    log_warn("store", "could not find the primaries of the store",
             LOG_TEXT("source", servers->kind->source),
             LOG_TEXT("primary", servers->kind == &servers_sentinel ? servers->words[2] : NULL),
             LOG_TEXT("error", error), LOG_TEXT("hint", hint), LOG_TEXT("host", node->host),
             LOG_INT("port", node->port), LOG_UINT("nodes", servers->node_count),
             LOG_UINT("suppressed", suppressed));
}

static void
on_query(void *ctx, const struct redisReply *reply, const char *error)
{
    struct servers *servers = ctx;
    struct query *query = servers->query;
    struct servers_listener *next;
    enum rc rc = RC_BAD;

    servers->query = NULL;
    memcpy(servers->found, servers->shards, sizeof(servers->found));
    if (reply != NULL) {
        rc = servers->kind->read(servers, reply);
        error = "invalid reply";
        query_stop(query);
    }
    if (rc == RC_OK) {
        const bool has_moved = adopt_found(servers);

        servers->failures = 0;
        servers->search_failed = (struct throttle){0};
        for (struct servers_listener *listener = servers->listeners; listener != NULL;
             listener = next) {
            next = listener->next;
            if (listener->searches || has_moved)
                listener->on_found(listener->ctx, servers->kind->is_final);
        }
    } else if (rc == RC_BAD) {
        if (servers->failures++ == 0)
            servers->failed_us = clock_monotonic_us();
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
                                 SERVERS_QUERY_TIMEOUT_S, on_query, servers);
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

/* ---- failovers that sentinels announce */

/* A subscription to the failovers that one sentinel announces. */
struct subscription {
    struct servers *servers;
    size_t number; /* number of the sentinel */
    struct query *query;
    ev_timer again;
};

struct sentinels {
    size_t count;
    struct subscription subscriptions[];
};

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
        query_now(servers, subscription->number);
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

static struct sentinels *
sentinels_open(struct servers *servers)
{
    const size_t count = servers->seed_count;
    struct sentinels *sentinels =
        memory_new(sizeof(*sentinels) + count * sizeof(*sentinels->subscriptions));

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

/* Accepts NULL. */
static void
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

/* ---- links that look for their server */

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
servers_recheck(struct servers *servers, struct servers_listener *listener)
{
    bool is_first = !is_searching(servers);

    listener->searches = true;
    if (servers->kind != NULL && is_first && servers->query == NULL)
        schedule(servers);
}

void
servers_confirm(struct servers *servers, struct servers_listener *listener)
{
    (void)servers; /* a query in flight is not followed by another query */
    listener->searches = false;
}

void
servers_join(struct servers *servers, struct servers_listener *listener)
{
    listener->next = servers->listeners;
    servers->listeners = listener;
    servers_recheck(servers, listener);
}

void
servers_leave(struct servers *servers, struct servers_listener *listener)
{
    struct servers_listener **at = &servers->listeners;

    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
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
    char server[URL_FORMAT_MAX];
    unsigned suppressed;

    if (servers->kind == NULL)
        return true;
    url_format(address, server);
    return throttle_allows(
        throttles_find(&servers->failed, hash_bytes(HASH_START, server, strlen(server))),
        clock_monotonic_us(), &suppressed);
}

/* A wrong password, for example, does not end by itself. */
static bool
is_lasting(const struct servers *servers)
{
    return clock_monotonic_us() - servers->failed_us >= SERVERS_FAILED_US ||
           (fault_find(servers->failure) != NULL && !fault_is_redirection(servers->failure));
}

const char *
servers_failure(const struct servers *servers)
{
    const bool has_failed = servers->kind != NULL && servers->failures >= servers->node_count;

    return has_failed && is_lasting(servers) ? servers->failure : NULL;
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

struct servers *
servers_open(struct ev_loop *loop, const struct config *config)
{
    const struct topology topology = topology_of(config);
    const enum urls_kind kind = urls_kind(config->store.url);
    struct servers *servers = memory_new(sizeof(*servers));

    servers->loop = loop;
    servers->config = config;
    servers->shard_count = topology.shards;
    servers->backoff = (struct backoff){SERVERS_SEARCH_BASE_MS, SERVERS_SEARCH_CAP_MS, 0};
    ev_timer_init(&servers->again, on_again, 0.0, 0.0);
    servers->again.data = servers;
    if (read_seeds(servers, config->store.url) != RC_OK) {
        log_error("store", "invalid store.url", LOG_TEXT("expected", URLS_FORM));
        servers_close(servers);
        return NULL;
    }
    if (kind == URLS_SENTINEL) { /* the URL contains the servers' password */
        servers->kind = &servers_sentinel;
        servers->words[0] = "SENTINEL";
        servers->words[1] = "MASTER";
        servers->words[2] = urls_rest(config->store.url);
        sentinel_credentials(config, &servers->as_queried);
        servers->sentinels = sentinels_open(servers);
    } else if (kind == URLS_CLUSTER) {
        servers->kind = &servers_cluster;
        servers->words[0] = "CLUSTER";
        servers->words[1] = "SLOTS";
        for (unsigned k = 0; k < servers->shard_count; k++)
            servers->shards[k].slot = topology_slot(&topology, config->store.prefix, k);
    }
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
