/* hash.h: FNV-1a with 64 bits. The values must never change: they decide the shard of each user. */
#ifndef CLAIRON_BASE_HASH_H
#define CLAIRON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues `hash`, which is HASH_START at first. */
static inline uint64_t
hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
