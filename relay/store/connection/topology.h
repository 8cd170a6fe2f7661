/*
 * topology.h: which server holds which shard. The only place that knows how shards are placed: on
 * the servers of store.url in turn, by their numbers.
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

/* The shards of a server: from the first to what is no shard any more. */
unsigned topology_first_shard(const struct topology *topology, unsigned server);
unsigned topology_next_shard(const struct topology *topology, unsigned shard);
/* How many a server has at most. */
unsigned topology_most_shards(const struct topology *topology);

/* What concerns a server as a whole is asked once, over the connection of its first shard. */
bool topology_is_first_shard(const struct topology *topology, unsigned shard);

#endif
