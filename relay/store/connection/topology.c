/* topology.c: maps shards to servers. */
#include "store/connection/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/urls.h"

struct topology
topology_of(const struct config *config)
{
    return (struct topology){.shards = (unsigned)config->store.shards,
                             .servers = urls_count(config->store.url)};
}

char *
topology_url(const struct config *config, unsigned server)
{
    return urls_at(config->store.url, server);
}

void
topology_free_url(char *url)
{
    explicit_bzero(url, strlen(url));
    free(url);
}

unsigned
topology_server_of(const struct topology *topology, unsigned shard)
{
    return shard % topology->servers;
}

unsigned
topology_first_shard(const struct topology *topology, unsigned server)
{
    (void)topology;
    return server;
}

unsigned
topology_next_shard(const struct topology *topology, unsigned shard)
{
    return shard + topology->servers;
}

unsigned
topology_max_shards(const struct topology *topology)
{
    return (topology->shards + topology->servers - 1) / topology->servers;
}

bool
topology_is_first_shard(const struct topology *topology, unsigned shard)
{
    return shard < topology->servers;
}
