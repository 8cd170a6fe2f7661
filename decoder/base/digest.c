/* digest.c: digests with random seeds. */
#include "base/digest.h"

#include "common/hashfn.h"
#include "miscadmin.h"

void
digest_add(struct digest *digest, const void *bytes, Size len)
{
    static uint64 seeds[2];

    while (seeds[0] == 0 && !pg_strong_random(seeds, sizeof(seeds)))
        CHECK_FOR_INTERRUPTS();
    for (int i = 0; i < 2; i++)
        digest->halves[i] = hash_bytes_extended(bytes, (int)len, seeds[i] ^ digest->halves[i]);
}
