/* placement.c: assigns users to shards. */
#include "store/shards/placement.h"

#define FNV_PRIME UINT64_C(0x100000001b3)

uint64_t
placement_hash(uint64_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * FNV_PRIME;
    return hash;
}

unsigned
shard_of_user(unsigned shard_count, const char *user, size_t len)
{
    if (shard_count == 1)
        return 0;
    return 1 + (unsigned)(placement_hash(PLACEMENT_HASH_START, user, len) % (shard_count - 1));
}
