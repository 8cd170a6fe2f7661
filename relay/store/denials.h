/*
 * denials.h: what the store has denied to table owners: notifications, because the pairs of
 * their owner were used up ([feed] owner_pairs), and entries of a full error log.
 */
#ifndef CLAIRON_STORE_DENIALS_H
#define CLAIRON_STORE_DENIALS_H

#include <stddef.h>
#include <stdint.h>

struct store;

#define STORE_DENIALS_MAX 64 /* further owners are only counted in `total` */

enum store_account { STORE_ACCOUNT_PAIRS, STORE_ACCOUNT_ERRORS, STORE_ACCOUNTS };

/* Since the start of the process. */
struct store_denials {
    uint64_t total;
    size_t count;
    struct store_denial {
        uint32_t owner;  /* OID of the role that owns the tables; 0: not limited */
        uint64_t items;  /* notifications or entries */
        int64_t last_us; /* of the last one; wall clock */
    } owners[STORE_DENIALS_MAX];
};

/* Lives as long as the store. */
const struct store_denials *store_denials(const struct store *store, enum store_account account);

#endif
