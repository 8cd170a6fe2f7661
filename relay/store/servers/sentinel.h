/* sentinel.h: reads the replies of sentinels. */
#ifndef CLAIRON_STORE_SENTINEL_H
#define CLAIRON_STORE_SENTINEL_H

#include <stdbool.h>

#include "base/config.h"
#include "base/rc.h"
#include "store/connection/connect.h"
#include "store/servers/topology.h"

struct redisReply;

/* The reply to SENTINEL MASTER. */
struct sentinel_primary {
    struct slots_node server;
    long long epoch;   /* incremented by each failover */
    bool is_down;      /* the sentinel cannot reach the primary */
    bool is_switching; /* a failover is in progress: the server may be the former primary */
};
MUST_CHECK enum rc sentinel_read_primary(const struct redisReply *reply,
                                         struct sentinel_primary *ret_primary);

/* Reads the address in a reply about a primary or a replica. */
MUST_CHECK enum rc sentinel_read_server(const struct redisReply *reply,
                                        struct slots_node *ret_node);

/* Returns a field of such a reply; -1: missing. */
long long sentinel_read_number(const struct redisReply *reply, const char *name);

/* Replaces the user and password of the servers with the sentinels' credentials. */
void sentinel_credentials(const struct config *config, struct url *address);

#endif
