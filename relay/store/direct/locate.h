/* locate.h: finds the server of a shard, with blocking requests. */
#ifndef CLAIRON_STORE_LOCATE_H
#define CLAIRON_STORE_LOCATE_H

#include "base/config.h"
#include "base/urls.h"
#include "store/servers/topology.h"
#include "store/direct/node.h"
#include "store/scripts/constants.h"

#define LOCATE_TIMEOUT_S 3 /* timeout per queried sentinel or node */

/* The last replies of the cluster or the sentinels. */
struct locator {
    const struct config *config;
    enum urls_kind kind;
    struct topology topology;
    bool is_known[STORE_SHARDS_MAX]; /* by connection */
    struct slots_node servers[STORE_SHARDS_MAX];
};

void locator_init(struct locator *locator, const struct config *config);
void locator_invalidate(struct locator *locator); /* query the nodes again */

/*
 * Returns the server of a connection's shards. RC_AGAIN: no server has the shards at the moment.
 * RC_IO: no server in store.url replies. In both cases `error` is the reason.
 */
MUST_CHECK enum rc locator_find(struct locator *locator, unsigned connection,
                                struct url *ret_address, char error[NODE_ERROR_MAX]);

/*
 * Returns a server listed in store.url, by number: the single server, a node, or a sentinel with
 * the sentinels' password. Returns false if the number is invalid.
 */
bool locate_named(const struct config *config, unsigned number, struct url *ret_address);
/*
 * Returns a node or a replica, with the credentials of store.url. Returns false if the address is
 * invalid.
 */
bool locate_node(const struct config *config, const struct slots_node *node,
                 struct url *ret_address);

#endif
