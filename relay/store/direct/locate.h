/* locate.h: finds the server that has a shard, with blocking requests. */
#ifndef CLAIRON_STORE_LOCATE_H
#define CLAIRON_STORE_LOCATE_H

#include "base/config.h"
#include "base/urls.h"
#include "store/connection/slots.h"
#include "store/connection/topology.h"
#include "store/direct/node.h"
#include "store/scripts/constants.h"

#define LOCATE_TIMEOUT_S 3 /* for each sentinel or node that is queried */

/* The last replies of the cluster or the sentinels. */
struct locator {
    const struct config *config;
    enum urls_kind kind;
    struct topology topology;
    bool is_known[STORE_SHARDS_MAX]; /* by connection */
    struct slots_node servers[STORE_SHARDS_MAX];
};

void locator_init(struct locator *locator, const struct config *config);
void locator_forget(struct locator *locator); /* query again */

/*
 * The server that has the shards of a connection. RC_AGAIN: there is none at the moment. RC_IO: no
 * server of store.url replies; `error` has the reason in both cases.
 */
MUST_CHECK enum rc locator_find(struct locator *locator, unsigned connection,
                                struct url *ret_address, char error[NODE_ERROR_MAX]);

/*
 * A server that store.url names, by number: the only one, a node, or a sentinel with the
 * sentinels' password. False: invalid.
 */
bool locate_named(const struct config *config, unsigned number, struct url *ret_address);
/* A node or a replica, with the credentials of store.url. False: invalid. */
bool locate_node(const struct config *config, const struct slots_node *node,
                 struct url *ret_address);

#endif
