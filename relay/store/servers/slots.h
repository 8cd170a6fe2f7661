/* slots.h: computes the slot of a key, and reads the servers of each slot. */
#ifndef CLAIRON_STORE_SLOTS_H
#define CLAIRON_STORE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

#define SLOTS_COUNT 16384
#define SLOTS_HOST_MAX 256

struct redisReply;

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

#endif
