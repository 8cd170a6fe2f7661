/* transactions.h: transactions of a shard whose notifications clients may have received. */
#ifndef CLAIRON_STORE_TRANSACTIONS_H
#define CLAIRON_STORE_TRANSACTIONS_H

#include <stdint.h>

#include "store/scripts/constants.h"
#include "wire/bytes.h"

/* A transaction of the database. */
struct transaction {
    uint64_t xid;
    int64_t commit_us; /* commit time; wall clock */
};

/* The newest transactions when a relay started to read the shard. */
struct transactions {
    struct transaction items[STORE_NEWEST_NOTIFIED + STORE_NEWEST_CHANGES];
    unsigned count;
};

/* Adds a transaction unless xid is 0 or the array is full. */
void transactions_add(struct transactions *transactions, uint64_t xid, int64_t commit_us);

/* Adds the transactions in the result of newest_transactions.lua. */
void transactions_add_packed(struct transactions *transactions, struct bytes packed);

#endif
