/* placement.h: assigns users to shards. */
#ifndef CLAIRON_STORE_PLACEMENT_H
#define CLAIRON_STORE_PLACEMENT_H

#include <stddef.h>

/* Returns the shard of notifications to this user alone. `user` may contain any bytes. */
unsigned shard_of_user(unsigned shard_count, const char *user, size_t len);

#endif
