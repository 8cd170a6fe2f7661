/*
 * topology.h: which server has which shard: shard k is on server k modulo the number of servers of
 * store.url. No other file depends on this rule.
 */
#ifndef CLAIRON_STORE_TOPOLOGY_H
#define CLAIRON_STORE_TOPOLOGY_H

#include <stdbool.h>

struct config;

struct topology {
    unsigned shards;
    unsigned servers;
};

struct topology topology_of(const struct config *config);

/* The URL of a server; topology_free_url wipes it, as it may hold a password. */
char *topology_url(const struct config *config, unsigned server);
void topology_free_url(char *url);

unsigned topology_server_of(const struct topology *topology, unsigned shard);

/* Iterates over the shards of a server; the end is at or above topology->shards. */
unsigned topology_first_shard(const struct topology *topology, unsigned server);
unsigned topology_next_shard(const struct topology *topology, unsigned shard);
/* The maximum number of shards on a server. */
unsigned topology_max_shards(const struct topology *topology);

/* Queries about a whole server use the connection of its first shard. */
bool topology_is_first_shard(const struct topology *topology, unsigned shard);

#endif
