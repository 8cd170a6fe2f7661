/* direct_slot.c: checks that no other node of a cluster has keys of a shard (slot_check.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"
#include "store/servers/cluster_nodes.h"

/* Returns the number of keys. A node that does not reply is ignored; -1: no permission. */
static long long
count_keys(struct direct *direct, unsigned shard, const struct slots_node *other)
{
    char slot[8], error[NODE_ERROR_MAX];
    const char *argv[] = {"CLUSTER", "COUNTKEYSINSLOT", slot};
    const struct redisReply *reply = NULL;
    struct node *node = NULL;
    struct url address;
    long long count;

    snprintf(slot, sizeof(slot), "%u", slots_of_key(direct->shards[shard].prefix));
    if (slots_is_same_node(other, &direct->unreachable) ||
        !locate_node(direct->config, other, &address))
        return 0;
    if (node_open(direct->config, &address, LOCATE_TIMEOUT_S, &node, error) == RC_OK)
        reply = node_request(node, 3, argv, NULL);
    else
        direct->unreachable = *other; /* each attempt would take seconds */
    count = reply_integer(reply);
    if (node != NULL && reply == NULL && fault_is_permission(node_error(node)))
        count = -1;
    node_close(node);
    explicit_bzero(&address, sizeof(address));
    return count;
}

static enum rc
check_other(struct direct *direct, unsigned shard, const struct slots_node *other)
{
    const long long count = count_keys(direct, shard, other);

    direct->is_scattered[shard] = count > 0;
    if (count == 0)
        return RC_OK;
    if (count > 0)
        snprintf(direct->error, DIRECT_ERROR_MAX, "shard %u has keys on %s:%d too", shard,
                 other->host, other->port);
    else
        snprintf(direct->error, DIRECT_ERROR_MAX, "the ACL user needs +cluster|countkeysinslot");
    return count > 0 ? RC_AGAIN : RC_IO;
}

enum rc
direct_check_slot(struct direct *direct, unsigned shard, struct node *node, const char *host)
{
    const char *argv[] = {"CLUSTER", "NODES"};
    const char *reply = reply_text(node_request(node, 2, argv, NULL));
    struct cluster_nodes nodes;
    struct slots_node other;
    enum rc rc = RC_OK;
    char *text;

    if (reply == NULL) {
        snprintf(direct->error, DIRECT_ERROR_MAX, "%s", node_error(node));
        return node_is_lost(node) || node_is_redirected(node) ? RC_AGAIN : RC_IO;
    }
    text = memory_text(reply, strlen(reply));
    nodes = cluster_nodes_begin(text, host);
    while (rc == RC_OK && cluster_nodes_next_primary(&nodes, false, &other))
        rc = check_other(direct, shard, &other);
    free(text);
    return rc;
}
