/* transaction.h: the callbacks for the steps of a transaction. */
#ifndef CLAIRON_TRANSACTION_H
#define CLAIRON_TRANSACTION_H

#include "postgres.h"

#include "replication/logical.h"

extern void clairon_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
extern void clairon_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
                           ReorderBufferChange *change);
extern void clairon_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count,
                             Relation relations[], ReorderBufferChange *change);
extern void clairon_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn,
                            bool transactional, const char *prefix, Size size, const char *message);
extern void clairon_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn);

#endif
