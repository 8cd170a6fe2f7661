/* cluster_nodes.h: reads the reply to CLUSTER NODES. */
#ifndef CLAIRON_STORE_CLUSTER_NODES_H
#define CLAIRON_STORE_CLUSTER_NODES_H

#include <stdbool.h>

#include "store/servers/slots.h"

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

/*
 * Reads the next primary except the node that replied, with or without failed primaries. Nodes
 * whose address is unknown are skipped. Returns false at the end.
 */
bool cluster_nodes_next_primary(struct cluster_nodes *nodes, bool includes_failed,
                                struct slots_node *ret_node);

#endif
