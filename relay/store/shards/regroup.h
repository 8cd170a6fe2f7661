/* regroup.h: selects the shards that the store works with, as shards fail and return. */
#ifndef CLAIRON_STORE_REGROUP_H
#define CLAIRON_STORE_REGROUP_H

#include "store/shards/shard.h"

/*
 * The store is up while all of its shards are up. In a cluster it comes up without shards that
 * have not replied for three seconds: PostgreSQL retains the WAL with their notifications
 * until they return. At the start all shards are required.
 */
void regroup_open(struct store *store);
void regroup_close(struct store *store);

extern const struct shard_events regroup_events;

#endif
