/* direct_slot.c: checks that no other node of a cluster has keys of a shard (slot_check.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"
#include "store/servers/cluster_nodes.h"

/*
 * A node that does not reply, or rejects the connection, is ignored: *ret_count is unchanged. A
 * command cannot know whether it may have keys, as a relay does (slot_check.h). RC_AGAIN: the node
 * is loading its dataset; RC_IO: it denies the command. `error` is then the reason.
 */
static enum rc
count_keys(struct direct *direct, const struct url *address, const char *slot, long long *ret_count,
           char error[NODE_ERROR_MAX])
{
    const char *argv[] = {"CLUSTER", "COUNTKEYSINSLOT", slot};
    const struct redisReply *reply = NULL;
    struct node *node = NULL;

    if (node_open(direct->config, address, LOCATE_TIMEOUT_S, &node, error) == RC_OK) {
        reply = node_request(node, 3, argv, NULL);
        snprintf(error, NODE_ERROR_MAX, "%s", node_error(node));
    }
    if (reply != NULL)
        *ret_count = reply_integer(reply);
    node_close(node);
    if (reply != NULL || !fault_requires_count(error))
        return RC_OK;
    return fault_is_redirection(error) ? RC_AGAIN : RC_IO;
}

static enum rc
check_other(struct direct *direct, unsigned shard, const struct slots_node *other)
{
    char slot[8], error[NODE_ERROR_MAX];
    struct url address;
    long long count = -1;
    enum rc rc;

    if (slots_is_same_node(other, &direct->unreachable) ||
        !locate_node(direct->config, other, &address))
        return RC_OK;
    snprintf(slot, sizeof(slot), "%u", slots_of_key(direct->shards[shard].prefix));
    rc = count_keys(direct, &address, slot, &count, error);
    explicit_bzero(&address, sizeof(address));
    direct->is_scattered[shard] = count > 0;
    if (count > 0) {
        snprintf(direct->error, DIRECT_ERROR_MAX, "shard %u has keys on %s:%d too", shard,
                 other->host, other->port);
        return RC_AGAIN;
    }
    if (rc != RC_OK)
        snprintf(direct->error, DIRECT_ERROR_MAX,
                 "could not count the keys of shard %u on another node: %.400s", shard, error);
    else if (count < 0)
        direct->unreachable = *other; /* each attempt would take seconds */
    return rc;
}

enum rc
direct_check_slot(struct direct *direct, unsigned shard, struct node *node, const char *host)
{
    const char *argv[] = {"CLUSTER", "NODES"};
    const char *reply = reply_text(node_request(node, 2, argv, NULL));
    struct cluster_nodes nodes;
    struct cluster_primary other;
    enum rc rc = RC_OK;
    char *text;

    if (reply == NULL) {
        snprintf(direct->error, DIRECT_ERROR_MAX, "%s", node_error(node));
        return node_is_lost(node) || node_is_redirected(node) ? RC_AGAIN : RC_IO;
    }
    text = memory_text(reply, strlen(reply));
    nodes = cluster_nodes_begin(text, host);
    while (rc == RC_OK && cluster_nodes_next_primary(&nodes, &other))
        if (!other.is_failed)
            rc = check_other(direct, shard, &other.node);
    free(text);
    return rc;
}
