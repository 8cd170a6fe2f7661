/* topology.c: maps shards to connections. */
#include "store/servers/topology.h"

#include "base/config.h"
#include "base/urls.h"
#include "store/servers/slots.h"

struct topology
topology_of(const struct config *config)
{
    const bool is_cluster = urls_kind(config->store.url) == URLS_CLUSTER;
    const unsigned shards = (unsigned)config->store.shards;

    return (struct topology){.shards = shards,
                             .connections = is_cluster ? shards : 1,
                             .is_cluster = is_cluster,
                             .is_numbered = is_cluster || shards > 1};
}

void
topology_shard_prefix(const struct topology *topology, const char *of_all, unsigned shard,
                      char ret_prefix[STORE_PREFIX_MAX])
{
    if (topology->is_numbered)
        key_shard_prefix(ret_prefix, of_all, shard);
    else
        snprintf(ret_prefix, STORE_PREFIX_MAX, "%s", of_all);
}

unsigned
topology_slot(const struct topology *topology, const char *of_all, unsigned shard)
{
    char prefix[STORE_PREFIX_MAX];

    topology_shard_prefix(topology, of_all, shard, prefix);
    return slots_of_key(prefix);
}

unsigned
topology_connection_of(const struct topology *topology, unsigned shard)
{
    return shard % topology->connections;
}

unsigned
topology_first_shard(const struct topology *topology, unsigned connection)
{
    (void)topology;
    return connection;
}

unsigned
topology_next_shard(const struct topology *topology, unsigned shard)
{
    return shard + topology->connections;
}

unsigned
topology_max_shards(const struct topology *topology)
{
    return topology->shards / topology->connections;
}

bool
topology_is_first_shard(const struct topology *topology, unsigned shard)
{
    return shard < topology->connections;
}
