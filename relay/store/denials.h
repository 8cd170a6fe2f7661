/*
 * denials.h: notifications that the store has denied, because the pairs of their owner were used up
 * ([feed] owner_pairs).
 */
#ifndef CLAIRON_STORE_DENIALS_H
#define CLAIRON_STORE_DENIALS_H

#include <stddef.h>
#include <stdint.h>

struct store;

#define STORE_DENIALS_MAX 64 /* further owners are only counted in `total` */

/* Since the start of the process. */
struct store_denials {
    uint64_t total;
    size_t count;
    struct store_denial {
        uint32_t owner; /* OID of the role that owns the tables */
        uint64_t notifications;
        int64_t last_us; /* of the last one; wall clock */
    } owners[STORE_DENIALS_MAX];
};

/* Lives as long as the store. */
const struct store_denials *store_denials(const struct store *store);

#endif
