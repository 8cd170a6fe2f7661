/* full_xid.h: transaction ids of 64 bits. */
#ifndef CLAIRON_FULL_XID_H
#define CLAIRON_FULL_XID_H

#include "postgres.h"

#include "access/transam.h"

/*
 * Returns the 64-bit form of an id, as pg_current_xact_id() does. `next` is the next id that will
 * be assigned, from ReadNextFullTransactionId(). `next` must be less than 2^31 ahead of the id.
 */
static inline uint64
full_xid(TransactionId xid, FullTransactionId next)
{
    uint64 epoch = EpochFromFullTransactionId(next);

    if (TransactionIdIsNormal(xid) && xid > XidFromFullTransactionId(next))
        epoch--;
    return epoch << 32 | xid;
}

#endif
