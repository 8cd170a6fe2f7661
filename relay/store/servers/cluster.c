/* cluster.c: finds the servers of a cluster's slots. */
#include <string.h>

#include "store/connection/reply.h"
#include "store/servers/servers_private.h"

/* The nodes in the reply precede the seeds, which may have left the cluster. */
static void
update_nodes(struct servers *servers, const struct redisReply *reply, const char *queried)
{
    struct slots_node nodes[SERVERS_NODES_MAX];
    const struct slots_node last = servers->nodes[servers->at];
    size_t count = slots_nodes(reply, queried, nodes, SERVERS_NODES_MAX);

    for (size_t i = 0; i < servers->seed_count; i++)
        count = slots_add_node(nodes, count, SERVERS_NODES_MAX, &servers->seeds[i]);
    memcpy(servers->nodes, nodes, count * sizeof(*nodes));
    servers->node_count = count;
    servers->at = 0;
    for (size_t i = 0; i < count; i++)
        if (slots_is_same_node(&nodes[i], &last))
            servers->at = i;
}

/* For a slot without a primary, the last known primary is kept. */
static enum rc
read_slots(struct servers *servers, const struct redisReply *reply)
{
    const struct slots_node queried = servers->nodes[servers->at];

    if (!reply_is_array(reply, 1))
        return RC_BAD;
    for (unsigned k = 0; k < servers->shard_count; k++) {
        struct servers_shard *shard = &servers->found[k];

        if (slots_primary(reply, shard->slot, queried.host, &shard->server) == RC_OK)
            shard->is_known = true;
    }
    update_nodes(servers, reply, queried.host);
    return RC_OK;
}

const struct servers_kind servers_cluster = {
    .source = "cluster", .is_final = false, .read = read_slots};
