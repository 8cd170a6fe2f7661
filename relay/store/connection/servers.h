/*
 * servers.h: the server that has each shard: the one of [store] url, the primary that the sentinels
 * know, or the node of a cluster that has the shard's slot. One per process.
 */
#ifndef CLAIRON_STORE_SERVERS_H
#define CLAIRON_STORE_SERVERS_H

#include <stdbool.h>

#include "base/config.h"
#include "base/rc.h"
#include "store/connection/url.h"

struct ev_loop;
struct servers;

/* A connection to a shard's server. */
struct servers_user {
    unsigned shard;
    /*
     * Called from the loop: servers_find may have another server now. `is_final`: leave the former
     * one even if it works. A former primary of sentinels does not know that it is one; a node of a
     * cluster does, and the reply may be outdated.
     */
    void (*on_found)(void *ctx, bool is_final);
    void *ctx;
    bool searches; /* it looks for another server, see servers_recheck */
    struct servers_user *next;
};

/* NULL: invalid URL (logged). */
struct servers *servers_open(struct ev_loop *loop, const struct config *config);
void servers_close(struct servers *servers); /* accepts NULL; all users have left */

/* `user` must live until servers_leave. It begins as searching. */
void servers_join(struct servers *servers, struct servers_user *user);
void servers_leave(struct servers *servers, struct servers_user *user);

/* RC_AGAIN: not known yet. */
MUST_CHECK enum rc servers_find(const struct servers *servers, unsigned shard,
                                struct url *ret_address);

/*
 * The shard's server failed, does not reply, or is not the primary: looks for the
 * current one several times a second, until servers_confirm. on_found is called after each look.
 */
void servers_recheck(struct servers *servers, struct servers_user *user);
/* The connection works. */
void servers_confirm(struct servers *servers, struct servers_user *user);

/*
 * Whether a failure of that server is worth a line in the log: not if any connection had one within
 * the last seconds. Always true with a store of one server.
 */
bool servers_is_new_failure(struct servers *servers, const struct url *address);

/* False: always the same server. */
bool servers_can_move(const struct servers *servers);

#endif
