/* transactions.c: transactions of a shard whose notifications clients may have received. */
#include "store/transactions.h"

#define PACKED_SIZE 16 /* commit time, id */

void
transactions_add(struct transactions *transactions, uint64_t xid, int64_t commit_us)
{
    if (xid == 0 ||
        transactions->count == sizeof(transactions->items) / sizeof(transactions->items[0]))
        return;
    transactions->items[transactions->count++] = (struct transaction){xid, commit_us};
}

void
transactions_add_packed(struct transactions *transactions, struct bytes packed)
{
    for (size_t at = 0; at + PACKED_SIZE <= packed.len; at += PACKED_SIZE)
        transactions_add(transactions, bytes_get_u64(packed.at + at + 8),
                         (int64_t)bytes_get_u64(packed.at + at));
}
