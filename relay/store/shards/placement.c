/* placement.c: assigns users to shards. */
#include "store/shards/placement.h"

#include "base/hash.h"

unsigned
shard_of_user(unsigned shard_count, const char *user, size_t len)
{
    if (shard_count == 1)
        return 0;
    return 1 + (unsigned)(hash_bytes(HASH_START, user, len) % (shard_count - 1));
}
