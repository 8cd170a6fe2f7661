/* cluster_nodes.h: reads the reply to CLUSTER NODES. */
#ifndef CLAIRON_STORE_CLUSTER_NODES_H
#define CLAIRON_STORE_CLUSTER_NODES_H

#include <stdbool.h>

#include "store/servers/slots.h"

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
    struct cluster_primary *others;  /* all other primaries */
    size_t count;
};

/*
 * `queried`: the host that replied; if the relay connected to its host name, the other nodes' host
 * names are used too. `slot`: the slot of `moves_with`. Free the result.
 */
struct cluster_nodes cluster_nodes_read(const char *text, const char *queried, unsigned slot);
void cluster_nodes_free(struct cluster_nodes *nodes);

#endif
