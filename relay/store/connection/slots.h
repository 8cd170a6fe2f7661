/* slots.h: the slots of a cluster: that of a key, and the servers of each. */
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

/* The slot of a key: of the text in its first braces, if any. */
unsigned slots_of_key(const char *key);

/*
 * The primary of a slot, from the reply to CLUSTER SLOTS by host `queried`: a node that does not
 * know its own host leaves it out. RC_AGAIN: the slot has no primary, or the
 * reply is not valid.
 */
MUST_CHECK enum rc slots_primary(const struct redisReply *reply, unsigned slot, const char *queried,
                                 struct slots_node *ret_node);

bool slots_is_same_node(const struct slots_node *a, const struct slots_node *b);

/* Adds a node unless it is there, or there are `max`. Returns the new count. */
size_t slots_add_node(struct slots_node *nodes, size_t count, size_t max,
                      const struct slots_node *node);

/* The different nodes of the reply, replicas too, at most `max`. Returns their number. */
size_t slots_nodes(const struct redisReply *reply, const char *queried,
                   struct slots_node *ret_nodes, size_t max);

#endif
