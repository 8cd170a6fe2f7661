/* start_position.h: finds one WAL position from which all shards can be read. */
#ifndef CLAIRON_STORE_START_POSITION_H
#define CLAIRON_STORE_START_POSITION_H

struct store;

typedef void start_position_found(struct store *store);

/*
 * Shards are prepared at different times, so their newest stream entries have different WAL
 * positions. Moves store->newest of each shard back to the lowest of these positions, if it is
 * found nearby, then calls `found`. `found` is not called if a shard goes down meanwhile. A new
 * call replaces a search in flight.
 */
void start_position_find(struct store *store, start_position_found *found);

#endif
