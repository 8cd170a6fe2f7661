/* locate.c: finds the server of a shard, with blocking requests. */
#include "store/direct/locate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/servers/sentinel.h"

static bool
read_named(const struct config *config, unsigned number, struct url *ret_address)
{
    char *url = urls_at(config->store.url, number);
    bool is_valid = url_read(url, ret_address) == RC_OK;

    explicit_bzero(url, strlen(url));
    free(url);
    return is_valid;
}

bool
locate_named(const struct config *config, unsigned number, struct url *ret_address)
{
    if (!read_named(config, number, ret_address))
        return false;
    if (urls_kind(config->store.url) == URLS_SENTINEL) {
        sentinel_credentials(config, ret_address);
        ret_address->database = NODE_NO_DATABASE;
    }
    return true;
}

bool
locate_node(const struct config *config, const struct slots_node *node, struct url *ret_address)
{
    if (!read_named(config, 0, ret_address))
        return false;
    snprintf(ret_address->host, sizeof(ret_address->host), "%s", node->host);
    ret_address->port = node->port;
    return true;
}

void
locator_invalidate(struct locator *locator)
{
    memset(locator->is_known, 0, sizeof(locator->is_known));
}

void
locator_init(struct locator *locator, const struct config *config)
{
    locator->config = config;
    locator->kind = urls_kind(config->store.url);
    locator->topology = topology_of(config);
    locator_invalidate(locator);
}

/* Queries a listed server. NULL: `error` is set; close *ret_node after use of the reply. */
static const struct redisReply *
query_named(const struct locator *locator, unsigned number, int argc, const char **argv,
            struct node **ret_node, struct url *ret_address, char error[NODE_ERROR_MAX])
{
    const struct redisReply *reply;

    *ret_node = NULL;
    if (!locate_named(locator->config, number, ret_address)) {
        snprintf(error, NODE_ERROR_MAX, "invalid store.url");
        return NULL;
    }
    if (node_open(locator->config, ret_address, LOCATE_TIMEOUT_S, ret_node, error) != RC_OK)
        return NULL;
    reply = node_request(*ret_node, argc, argv, NULL);
    if (reply == NULL)
        snprintf(error, NODE_ERROR_MAX, "%s", node_error(*ret_node));
    return reply;
}

/* Returns the number of shards that have a primary. */
static unsigned
read_slots(struct locator *locator, const struct redisReply *reply, const char *queried)
{
    const struct topology *topology = &locator->topology;
    unsigned known = 0;

    for (unsigned k = 0; k < topology->shards; k++) {
        const unsigned slot = topology_slot(topology, locator->config->store.prefix, k);

        locator->is_known[k] = slots_primary(reply, slot, queried, &locator->servers[k]) == RC_OK;
        known += locator->is_known[k];
    }
    return known;
}

/* Uses the reply with the most shards: a node that was removed from the cluster has none. */
static enum rc
query_cluster(struct locator *locator, char error[NODE_ERROR_MAX])
{
    const char *argv[] = {"CLUSTER", "SLOTS"};
    const unsigned count = urls_count(locator->config->store.url);
    struct locator read = *locator;
    unsigned most = 0;
    enum rc rc = RC_IO;

    for (unsigned i = 0; i < count && most < locator->topology.shards; i++) {
        struct node *node;
        struct url address;
        const struct redisReply *reply = query_named(locator, i, 2, argv, &node, &address, error);
        const unsigned known = reply != NULL ? read_slots(&read, reply, address.host) : 0;

        if (reply != NULL)
            rc = RC_OK;
        if (known > most) {
            most = known;
            *locator = read;
        }
        node_close(node);
        explicit_bzero(&address, sizeof(address));
    }
    return rc;
}

/*
 * Each failover raises the epoch, so a sentinel with a lower epoch has missed a failover. During a
 * failover the result is uncertain: the former primary may still accept writes that will be lost.
 */
static enum rc
choose_primary(struct locator *locator, const struct sentinel_primary *replies, size_t count,
               char error[NODE_ERROR_MAX])
{
    const struct sentinel_primary *newest = &replies[0];

    for (size_t i = 0; i < count; i++) {
        if (replies[i].is_switching) {
            snprintf(error, NODE_ERROR_MAX,
                     "failover in progress: the sentinels are switching to another primary");
            return RC_AGAIN;
        }
        if (replies[i].epoch > newest->epoch)
            newest = &replies[i];
    }
    locator->is_known[0] = true;
    locator->servers[0] = newest->server;
    return RC_OK;
}

/* Queries all sentinels. */
static enum rc
query_sentinels(struct locator *locator, char error[NODE_ERROR_MAX])
{
    const char *argv[] = {"SENTINEL", "MASTER", urls_rest(locator->config->store.url)};
    const unsigned count = urls_count(locator->config->store.url);
    struct sentinel_primary *replies = memory_new(count * sizeof(*replies));
    size_t replied = 0;
    enum rc rc = RC_IO;

    for (unsigned i = 0; i < count; i++) {
        struct node *node;
        struct url address;
        const struct redisReply *reply = query_named(locator, i, 3, argv, &node, &address, error);

        if (reply != NULL && sentinel_read_primary(reply, &replies[replied]) == RC_OK)
            replied++;
        else if (reply != NULL)
            snprintf(error, NODE_ERROR_MAX, "invalid reply to SENTINEL MASTER");
        node_close(node);
        explicit_bzero(&address, sizeof(address));
    }
    if (replied > 0)
        rc = choose_primary(locator, replies, replied, error);
    free(replies);
    return rc;
}

enum rc
locator_find(struct locator *locator, unsigned connection, struct url *ret_address,
             char error[NODE_ERROR_MAX])
{
    enum rc rc = RC_OK;

    if (locator->kind == URLS_SINGLE) {
        if (locate_named(locator->config, 0, ret_address))
            return RC_OK;
        snprintf(error, NODE_ERROR_MAX, "invalid store.url");
        return RC_IO;
    }
    if (!locator->is_known[connection])
        rc = locator->kind == URLS_CLUSTER ? query_cluster(locator, error)
                                           : query_sentinels(locator, error);
    if (rc != RC_OK)
        return rc;
    if (!locator->is_known[connection]) {
        snprintf(error, NODE_ERROR_MAX, "shard %u has no primary: its slot is not covered",
                 connection);
        return RC_AGAIN;
    }
    return locate_node(locator->config, &locator->servers[connection], ret_address) ? RC_OK : RC_IO;
}
