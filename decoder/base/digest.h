/*
 * digest.h: identifies what a prepared object was made from.
 *
 * Objects with equal digests were made from equal input. The seeds are random: an owner who could
 * compute digests could make two different inputs with the same digest.
 */
#ifndef CLAIRON_DIGEST_H
#define CLAIRON_DIGEST_H

#include "postgres.h"

struct digest {
    uint64 halves[2];
};

/* Adds bytes to the digest, which starts as zeros. The order matters. */
extern void digest_add(struct digest *digest, const void *bytes, Size len);

#define digest_add_value(digest, value) digest_add(digest, &(value), sizeof(value))

static inline bool
digest_equal(const struct digest *a, const struct digest *b)
{
    return a->halves[0] == b->halves[0] && a->halves[1] == b->halves[1];
}

#endif
