/* regroup.h: which shards the store works with, as shards go down and return. */
#ifndef CLAIRON_STORE_REGROUP_H
#define CLAIRON_STORE_REGROUP_H

#include "store/shards/shard.h"

/*
 * The store is up while all of its shards are. In a cluster it goes up without some of them three
 * seconds after they stopped replying: their notifications stay in PostgreSQL's WAL until they
 * return. Shard 0 is always needed, because it has the memberships; and the first time all are.
 */
void regroup_open(struct store *store);
void regroup_close(struct store *store);

extern const struct shard_events regroup_events;

#endif
