/* direct_place.c: checks that no other node of a cluster has keys of a shard (place.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"
#include "store/shards/place.h"

enum rc
direct_fail(struct direct *direct, const char *error)
{
    const size_t len = strnlen(error, sizeof(direct->error) - 1);

    memmove(direct->error, error, len);
    direct->error[len] = '\0';
    return RC_IO;
}

/* Returns the number of the shard's keys on another node, or -1: `error` is then the reason. */
static long long
count_keys(struct direct *direct, unsigned shard, const struct slots_node *other,
           char error[NODE_ERROR_MAX])
{
    char slot[8];
    const char *argv[] = {"CLUSTER", "COUNTKEYSINSLOT", slot};
    const struct redisReply *reply = NULL;
    struct node *node = NULL;
    struct url address;
    long long keys = -1;

    snprintf(error, NODE_ERROR_MAX, "the node does not reply");
    if (slots_is_same_node(other, &direct->unreachable) ||
        !locate_node(direct->config, other, &address))
        return -1;
    snprintf(slot, sizeof(slot), "%u", slots_of_key(direct->shards[shard].prefix));
    if (node_open(direct->config, &address, LOCATE_TIMEOUT_S, &node, error) == RC_OK) {
        reply = node_request(node, 3, argv, NULL);
        snprintf(error, NODE_ERROR_MAX, "%s", node_error(node));
    }
    if (reply_is_integer(reply))
        keys = reply_integer(reply);
    if (node == NULL || node_is_lost(node))
        direct->unreachable = *other; /* each attempt would take seconds */
    explicit_bzero(&address, sizeof(address));
    node_close(node);
    return keys;
}

/* Asks the shard's node. Returns false if it does not reply. */
static bool
read_facts(struct direct *direct, unsigned shard, struct node *node, const char *host,
           struct cluster_nodes *ret_nodes, struct place_facts *ret_facts)
{
    const unsigned slot = slots_of_key(direct->shards[shard].prefix);
    char meta[STORE_KEY_MAX], number[8];
    const char *fields[] = {"HMGET", meta, PLACE_FIELD, PLACE_WITHOUT_FIELD};
    const char *count[] = {"CLUSTER", "COUNTKEYSINSLOT", number};
    const char *nodes[] = {"CLUSTER", "NODES"};
    const struct redisReply *reply;

    *ret_facts = (struct place_facts){.count = 0};
    key_write(meta, direct->shards[shard].prefix, KEY_META);
    snprintf(number, sizeof(number), "%u", slot);
    place_read_meta(node_request(node, 4, fields, NULL), ret_facts);
    reply = node_request(node, 3, count, NULL);
    ret_facts->own_keys = reply_is_integer(reply) ? reply_integer(reply) : PLACE_KEYS_UNKNOWN;
    reply = node_request(node, 2, nodes, NULL);
    if (reply_text(reply) == NULL)
        return false;
    *ret_nodes = cluster_nodes_read(reply_text(reply), host, slot);
    return true;
}

/* A failed node is not asked, as in place.c. */
static enum rc
decide(struct direct *direct, unsigned shard, const struct cluster_nodes *nodes,
       struct place_facts *facts)
{
    static const struct shard_place unknown = {.state = PLACE_UNKNOWN};
    struct place_other *others = memory_new((nodes->count + 1) * sizeof(*others));
    char reason[NODE_ERROR_MAX] = "the node has failed", error[NODE_ERROR_MAX];
    const struct place_other *holder;
    enum rc rc = RC_AGAIN;

    for (size_t i = 0; i < nodes->count; i++) {
        others[i] = (struct place_other){&nodes->others[i], -1};
        if (!nodes->others[i].is_failed)
            others[i].keys = count_keys(direct, shard, &nodes->others[i].node, error);
        if (!nodes->others[i].is_failed && others[i].keys < 0)
            memcpy(reason, error, sizeof(reason));
    }
    facts->others = others;
    facts->count = nodes->count;
    direct->is_scattered[shard] = false;
    if (place_decide(&unknown, facts, &holder) == PLACE_SOLE) {
        rc = RC_OK;
    } else if (holder->keys > 0) {
        direct->is_scattered[shard] = true;
        snprintf(direct->error, DIRECT_ERROR_MAX, "shard %u has keys on %s:%d too", shard,
                 holder->primary->node.host, holder->primary->node.port);
    } else {
        rc = strstr(reason, "NOPERM") != NULL ? RC_IO : RC_AGAIN;
        snprintf(direct->error, DIRECT_ERROR_MAX,
                 "could not count the keys of shard %u on another node: %.400s", shard, reason);
    }
    free(others);
    return rc;
}

enum rc
direct_check_place(struct direct *direct, unsigned shard, struct node *node, const char *host)
{
    struct cluster_nodes nodes = {.count = 0};
    struct place_facts facts;
    enum rc rc;

    if (!read_facts(direct, shard, node, host, &nodes, &facts)) {
        snprintf(direct->error, DIRECT_ERROR_MAX, "%s", node_error(node));
        return node_is_lost(node) || node_is_redirected(node) ? RC_AGAIN : RC_IO;
    }
    rc = decide(direct, shard, &nodes, &facts);
    cluster_nodes_free(&nodes);
    return rc;
}

/* Finds a primary by its ID or HOST:PORT. */
static const struct cluster_primary *
find_other(const struct cluster_nodes *nodes, const char *name)
{
    char address[SLOTS_HOST_MAX + 16];

    for (size_t i = 0; i < nodes->count; i++) {
        const struct cluster_primary *other = &nodes->others[i];

        snprintf(address, sizeof(address), "%s:%d", other->node.host, other->node.port);
        if (strcmp(name, other->id) == 0 || strcmp(name, address) == 0)
            return other;
    }
    return NULL;
}

/* Only the keys of a lost node are abandoned. */
static enum rc
check_is_lost(struct direct *direct, unsigned shard, const struct cluster_primary *other)
{
    char error[NODE_ERROR_MAX];
    long long keys;

    if (other->is_failed)
        return RC_OK;
    keys = count_keys(direct, shard, &other->node, error);
    if (keys < 0)
        return RC_OK;
    snprintf(direct->error, DIRECT_ERROR_MAX, "node %s replies, and has %lld keys of shard %u: %s",
             other->id, keys, shard,
             keys > 0 ? "complete the move of its slot instead, see OPERATIONS.md"
                      : "no shard waits for it");
    return RC_BAD;
}

/* The new epoch announces the loss to clients. While the slot moves, the node rejects EXISTS. */
static enum rc
store_acceptance(struct direct *direct, unsigned shard, struct node *node,
                 const struct place_facts *facts, const char *id)
{
    char meta[STORE_KEY_MAX], without[PLACE_WITHOUT_MAX + CLUSTER_ID_MAX];
    char epoch[STORE_EPOCH_TEXT + 1];
    const char *probe[] = {"EXISTS", meta, direct->shards[shard].none};
    const char *set[] = {"HSET", meta, PLACE_WITHOUT_FIELD, without, "epoch", epoch};

    key_write(meta, direct->shards[shard].prefix, KEY_META);
    if (node_request(node, 3, probe, NULL) == NULL) {
        snprintf(direct->error, DIRECT_ERROR_MAX,
                 "%.300s; if the slot is moving, first run cluster setslot %u stable on its node",
                 node_error(node), slots_of_key(direct->shards[shard].prefix));
        return RC_BAD;
    }
    snprintf(without, sizeof(without), "%s%s%s", facts->without,
             facts->without[0] != '\0' ? " " : "", id);
    if (strlen(without) >= PLACE_WITHOUT_MAX)
        return direct_fail(direct, "too many nodes were abandoned: remove them from the cluster");
    shard_random_hex(epoch, STORE_EPOCH_TEXT);
    if (node_request(node, 6, set, NULL) == NULL)
        return direct_fail(direct, node_error(node));
    return RC_OK;
}

static enum rc
accept_on(struct direct *direct, unsigned shard, struct node *node, const char *host,
          const char *name, char ret_id[DIRECT_NODE_MAX])
{
    struct cluster_nodes nodes = {.count = 0};
    const struct cluster_primary *other = NULL;
    struct place_facts facts;
    enum rc rc = RC_BAD;

    if (!read_facts(direct, shard, node, host, &nodes, &facts))
        return direct_fail(direct, node_error(node));
    other = find_other(&nodes, name);
    if (other == NULL)
        snprintf(direct->error, DIRECT_ERROR_MAX,
                 "no other primary of the cluster has this ID or address: %.100s", name);
    else
        rc = check_is_lost(direct, shard, other);
    if (rc == RC_OK) {
        snprintf(ret_id, DIRECT_NODE_MAX, "%s", other->id);
        if (!place_is_abandoned(&facts, other->id))
            rc = store_acceptance(direct, shard, node, &facts, other->id);
    }
    cluster_nodes_free(&nodes);
    return rc;
}

enum rc
direct_accept(struct direct *direct, unsigned shard, const char *name, char ret_id[DIRECT_NODE_MAX])
{
    struct node *node = NULL;
    struct url address;
    enum rc rc = RC_BAD;

    if (!direct->locator.topology.is_cluster)
        return direct_fail(direct, "the store is not a cluster: no shard waits for a node");
    if (shard >= direct->shard_count) {
        snprintf(direct->error, DIRECT_ERROR_MAX, "no shard %u: the store has %u", shard,
                 direct->shard_count);
        return RC_BAD;
    }
    rc = locator_find(&direct->locator, shard, &address, direct->error);
    if (rc == RC_OK)
        rc = node_open(direct->config, &address, LOCATE_TIMEOUT_S, &node, direct->error);
    if (rc == RC_OK)
        rc = accept_on(direct, shard, node, address.host, name, ret_id);
    explicit_bzero(&address, sizeof(address));
    node_close(node);
    return rc;
}
