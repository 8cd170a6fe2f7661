/* tally.c: represents a set of notifications by its count and a sum of hashes. */
#include "hub/fanout/tally.h"

/* FNV-1a. */
static uint32_t
hash_of(const unsigned char id[16])
{
    uint32_t hash = UINT32_C(2166136261);

    for (int i = 0; i < 16; i++)
        hash = (hash ^ id[i]) * UINT32_C(16777619);
    return hash;
}

void
tally_add(struct tally *tally, const unsigned char id[16])
{
    tally->count++;
    tally->sum += hash_of(id);
}

void
tally_remove(struct tally *tally, const unsigned char id[16])
{
    tally->count--;
    tally->sum -= hash_of(id);
}
