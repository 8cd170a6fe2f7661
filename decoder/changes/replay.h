/* replay.h: writes the notifications of a transaction that was rendered before its commit. */
#ifndef CLAIRON_REPLAY_H
#define CLAIRON_REPLAY_H

#include "postgres.h"

#include "replication/logical.h"

extern void replay_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);

#endif
