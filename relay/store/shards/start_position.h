/* start_position.h: where to begin to read several shards: behind one position in all of them. */
#ifndef CLAIRON_STORE_START_POSITION_H
#define CLAIRON_STORE_START_POSITION_H

struct store;

typedef void start_position_found(struct store *store);

/*
 * When a store is first up: each shard was greeted in its own moment, and some are further than
 * others. Sets store->newest back to the position of the least, where it can be found, and calls
 * store_come_up; not, when a shard goes meanwhile. A new call ends one that is under way.
 */
void start_position_find(struct store *store, start_position_found *found);

#endif
