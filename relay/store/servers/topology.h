/*
 * topology.h: the shards, and the connections that read them: one for all shards of a single
 * server, or one per shard of a cluster, whose shards may be on different nodes. Connection c reads
 * shard c first.
 */
#ifndef CLAIRON_STORE_TOPOLOGY_H
#define CLAIRON_STORE_TOPOLOGY_H

#include <stdbool.h>

#include "store/scripts/keys.h"

struct config;

struct topology {
    unsigned shards;
    unsigned connections;
    bool is_cluster;
    bool is_numbered; /* keys contain the number of their shard */
};

struct topology topology_of(const struct config *config);

/* Writes the prefix of a shard's keys; `of_all` is [store] prefix. */
void topology_shard_prefix(const struct topology *topology, const char *of_all, unsigned shard,
                           char ret_prefix[STORE_PREFIX_MAX]);

/* Returns the slot of the shard's keys; only in a cluster. */
unsigned topology_slot(const struct topology *topology, const char *of_all, unsigned shard);

unsigned topology_connection_of(const struct topology *topology, unsigned shard);

/* Iterate over the shards of a connection; the end value is at least topology->shards. */
unsigned topology_first_shard(const struct topology *topology, unsigned connection);
unsigned topology_next_shard(const struct topology *topology, unsigned shard);
/* Returns the maximum number of shards of a connection. */
unsigned topology_max_shards(const struct topology *topology);

/* Queries about a whole server use the connection of its first shard. */
bool topology_is_first_shard(const struct topology *topology, unsigned shard);

#endif
