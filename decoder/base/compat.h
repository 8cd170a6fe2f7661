/* compat.h: differences between PostgreSQL 15 and 18 that several files need. */
#ifndef CLAIRON_COMPAT_H
#define CLAIRON_COMPAT_H

#include "postgres.h"

#include "access/transam.h"
#include "replication/reorderbuffer.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h" /* postgres.h has its macros in 15 */
#endif

/*
 * The 64-bit form of the id of a decoded transaction. The next id is above it, by less than 2^31:
 * the slot's catalog_xmin, or the transaction itself while it is prepared, holds back the freezing
 * of older rows. During recovery the next id follows the replayed WAL, which contains the
 * transaction.
 */
static inline uint64
compat_full_xid(TransactionId xid)
{
    FullTransactionId next = ReadNextFullTransactionId();
    uint32 epoch = EpochFromFullTransactionId(next);

    if (xid > XidFromFullTransactionId(next))
        epoch--;
    return U64FromFullTransactionId(FullTransactionIdFromEpochAndXid(epoch, xid));
}

/* The tuples of a change; NULL where it has none. Before 17 they are members of a buffer struct. */
static inline HeapTuple
compat_old_tuple(const ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
    return change->data.tp.oldtuple;
#else
    return change->data.tp.oldtuple == NULL ? NULL : &change->data.tp.oldtuple->tuple;
#endif
}

static inline HeapTuple
compat_new_tuple(const ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
    return change->data.tp.newtuple;
#else
    return change->data.tp.newtuple == NULL ? NULL : &change->data.tp.newtuple->tuple;
#endif
}

#endif
