/* placement.h: assigns users to shards. */
#ifndef CLAIRON_STORE_PLACEMENT_H
#define CLAIRON_STORE_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

/* Offset basis of FNV-1a. The hash must never change: it decides the shard of each user. */
#define PLACEMENT_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t placement_hash(uint64_t hash, const char *bytes, size_t len);

/* Returns the shard of notifications to this user alone. `user` may contain any bytes. */
unsigned shard_of_user(unsigned shard_count, const char *user, size_t len);

#endif
