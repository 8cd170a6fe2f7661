/*
 * servers.h: the server of each shard: the server in [store] url, the primary known to the
 * sentinels, or the cluster node with the shard's slot. One struct per process.
 */
#ifndef CLAIRON_STORE_SERVERS_H
#define CLAIRON_STORE_SERVERS_H

#include <stdbool.h>

#include "base/config.h"
#include "base/rc.h"
#include "store/connection/connect.h"
#include "store/servers/topology.h"

struct ev_loop;
struct redisReply;
struct servers;

/* A link to a shard's server. */
struct servers_listener {
    unsigned shard;
    /*
     * Called from the loop: servers_find may return another server. `is_final`: drop the connection
     * to the former server even if it works. With sentinels, a former primary does not detect that
     * it was replaced. A cluster node detects its replacement, but the reply may be outdated.
     */
    void (*on_found)(void *ctx, bool is_final);
    void *ctx;
    bool searches; /* it searches for another server (servers_recheck) */
    struct servers_listener *next;
};

/* Returns NULL if the URL is invalid (logged). */
struct servers *servers_open(struct ev_loop *loop, const struct config *config);
void servers_close(struct servers *servers); /* accepts NULL; all listeners must have left */

/* `listener` must live until servers_leave, and starts with a search. */
void servers_join(struct servers *servers, struct servers_listener *listener);
void servers_leave(struct servers *servers, struct servers_listener *listener);

/* RC_AGAIN: the server is not known yet. */
MUST_CHECK enum rc servers_find(const struct servers *servers, unsigned shard,
                                struct url *ret_address);

/*
 * Call it if the shard's server failed, does not reply, or is not the primary. Searches for the
 * current server several times a second until servers_confirm. on_found is called after each query.
 */
void servers_recheck(struct servers *servers, struct servers_listener *listener);
/* Call it when the connection works. */
void servers_confirm(struct servers *servers, struct servers_listener *listener);

/*
 * True if a failure of that server must be logged. False if any connection to it failed within the
 * last seconds. Always true with a store of one server.
 */
bool servers_is_new_failure(struct servers *servers, const struct url *address);

/*
 * Returns the error of the last query if no node has replied for several seconds, or waiting is of
 * no use; otherwise NULL.
 */
const char *servers_failure(const struct servers *servers);

/* False if all shards stay on the same server. */
bool servers_can_move(const struct servers *servers);

/* ---- sentinels */

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
