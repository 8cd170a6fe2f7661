/* followed.h: selects the shards that the reader follows: the shards of the connected users. */
#ifndef CLAIRON_HUB_FOLLOWED_H
#define CLAIRON_HUB_FOLLOWED_H

#include <stdbool.h>

struct hub;

/* Call these when a session of a user in the shard starts or ends. */
void followed_add_session(struct hub *hub, unsigned shard);
void followed_remove_session(struct hub *hub, unsigned shard);

/* True if sessions of users in the shard can continue. */
bool followed_is_ready(const struct hub *hub, unsigned shard);

/* Call it every few seconds: shards without a session are no longer followed after a delay. */
void followed_sweep(struct hub *hub);

#endif
