/* followed.h: which shards the reader follows: those of the users that are connected. */
#ifndef CLAIRON_HUB_SESSION_FOLLOWED_H
#define CLAIRON_HUB_SESSION_FOLLOWED_H

#include <stdbool.h>

struct hub;

/* A session of the shard began, or ended. */
void followed_add_session(struct hub *hub, unsigned shard);
void followed_remove_session(struct hub *hub, unsigned shard);

/* Sessions of the shard can continue. */
bool followed_is_ready(const struct hub *hub, unsigned shard);

/* Every few seconds: shards without a session are no longer followed after a while. */
void followed_sweep(struct hub *hub);

#endif
