/* cluster_nodes.h: reads the reply to CLUSTER NODES. */
#ifndef CLAIRON_STORE_CLUSTER_NODES_H
#define CLAIRON_STORE_CLUSTER_NODES_H

#include <stdbool.h>

#include "store/servers/slots.h"

#define CLUSTER_ID_MAX 48 /* an ID has 40 digits */

struct cluster_primary {
    struct slots_node node; /* port 0: its address is unknown */
    char id[CLUSTER_ID_MAX];
    bool is_failed;    /* most primaries consider it failed, or its address is unknown */
    bool is_suspected; /* the node that replied cannot reach it */
    bool has_slots;    /* false after a replica has taken them over */
};

/* A position in the reply. */
struct cluster_nodes {
    const char *at;
    bool uses_names; /* connects to the host names that the nodes announce, not to addresses */
};

/*
 * Starts at the first node. `text` must outlive the position. `queried`: the host that replied; if
 * the relay connected to its host name, the other nodes' host names are used too.
 */
struct cluster_nodes cluster_nodes_begin(const char *text, const char *queried);

/* Reads the next primary except the node that replied. Returns false at the end. */
bool cluster_nodes_next_primary(struct cluster_nodes *nodes, struct cluster_primary *ret_primary);

/* Returns true if the node that replied is a primary without slots. */
bool cluster_nodes_is_slotless(const char *text);

/* Reads the ID of the node that replied; "" if the reply lacks it. */
void cluster_nodes_own_id(const char *text, char ret_id[CLUSTER_ID_MAX]);

/* Returns true if the node that replied is moving this slot, and to which node. */
bool cluster_nodes_target(const char *text, unsigned slot, char ret_id[CLUSTER_ID_MAX]);

#endif
