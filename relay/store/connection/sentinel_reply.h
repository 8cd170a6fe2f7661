/* sentinel_reply.h: reads the replies of sentinels. Only these files know their form. */
#ifndef CLAIRON_STORE_SENTINEL_REPLY_H
#define CLAIRON_STORE_SENTINEL_REPLY_H

#include <stdbool.h>

#include "base/config.h"
#include "base/rc.h"
#include "store/connection/slots.h"
#include "store/connection/url.h"

struct redisReply;

/* The reply to SENTINEL MASTER. */
struct sentinel_primary {
    struct slots_node server;
    long long epoch;   /* each failover raises it */
    bool is_down;      /* the sentinel does not reach the primary */
    bool is_switching; /* a failover is in progress: the server may be the former primary */
};
MUST_CHECK enum rc sentinel_read_primary(const struct redisReply *reply,
                                         struct sentinel_primary *ret_primary);

/* The address in a reply about a primary or a replica. */
MUST_CHECK enum rc sentinel_read_server(const struct redisReply *reply,
                                        struct slots_node *ret_node);

/* A field of such a reply; -1: there is none. */
long long sentinel_read_number(const struct redisReply *reply, const char *name);

/* Replaces user and password, which are those of the servers, by those of the sentinels. */
void sentinel_credentials(const struct config *config, struct url *address);

#endif
