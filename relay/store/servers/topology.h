/* topology.h: the shards, their slots and connections, and the nodes of a cluster. */
#ifndef CLAIRON_STORE_TOPOLOGY_H
#define CLAIRON_STORE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/rc.h"
#include "store/scripts/constants.h"
#include "wire/bytes.h"

struct config;
struct redisReply;

/*
 * The shards, and the connections that read them: one for all shards of a single server, or one per
 * shard of a cluster, whose shards may be on different nodes. Connection c reads shard c first. For
 * requests, each shard has a link of its own (shard.h).
 */
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

/*
 * Iterates over the shards of a connection. The first has the number of the connection; the end
 * value is at least topology->shards.
 */
unsigned topology_next_shard(const struct topology *topology, unsigned shard);
/* Returns the maximum number of shards of a connection. */
unsigned topology_max_shards(const struct topology *topology);

/* The first shard of a connection does what is needed once for all its shards. */
bool topology_is_first_shard(const struct topology *topology, unsigned shard);

#define SLOTS_COUNT 16384
#define SLOTS_HOST_MAX 256

struct slots_node {
    char host[SLOTS_HOST_MAX];
    int port;
};

/* Returns the slot of a key. If the key contains braces, only the text in the first pair counts. */
unsigned slots_of_key(const char *key);

/*
 * Reads the primary of a slot from the reply to CLUSTER SLOTS. `queried`: the host that replied,
 * because a node may omit its own host. RC_AGAIN: the slot has no primary, or the reply is invalid.
 */
MUST_CHECK enum rc slots_primary(const struct redisReply *reply, unsigned slot, const char *queried,
                                 struct slots_node *ret_node);

bool slots_is_same_node(const struct slots_node *a, const struct slots_node *b);

/* Adds a node unless it is a duplicate or the list has `max` nodes. Returns the new count. */
size_t slots_add_node(struct slots_node *nodes, size_t count, size_t max,
                      const struct slots_node *node);

/* Copies the distinct nodes of the reply, including replicas, up to `max`. Returns their number. */
size_t slots_nodes(const struct redisReply *reply, const char *queried,
                   struct slots_node *ret_nodes, size_t max);

#define CLUSTER_ID_MAX 48 /* an ID has 40 digits */

struct cluster_primary {
    struct slots_node node; /* port 0: its address is unknown */
    char id[CLUSTER_ID_MAX];
    bool is_failed; /* most primaries consider it failed, or its address is unknown */
    bool has_slots; /* false after a replica has taken them over */
};

/* The cluster, as the node that replied describes it. */
struct cluster_nodes {
    char own_id[CLUSTER_ID_MAX];     /* of the node that replied; "": invalid reply */
    char moves_with[CLUSTER_ID_MAX]; /* it moves the slot to or from this node; "": no move */
    bool is_slotless;                /* it is a primary without slots */
    struct bytes moves;              /* all its moves, in the text of the reply; empty: none */
    struct cluster_primary *others;  /* all other primaries */
    size_t count;
};

/*
 * `queried`: the host that replied; if the relay connected to its host name, the other nodes' host
 * names are used too. `slot`: the slot of `moves_with`. Free the result.
 */
struct cluster_nodes cluster_nodes_read(const char *text, const char *queried, unsigned slot);
void cluster_nodes_free(struct cluster_nodes *nodes);
/* Whether the reply lists a node with this ID. */
bool cluster_nodes_list(const char *text, const char *id);

/* A list of shards as a string, such as "3,7". */
#define SHARD_LIST_MAX (3 * STORE_SHARDS_MAX)

static inline void
shard_list_add(char list[SHARD_LIST_MAX], unsigned shard)
{
    size_t len = strlen(list);

    snprintf(list + len, SHARD_LIST_MAX - len, len > 0 ? ",%u" : "%u", shard);
}

#endif
