/*
 * stream.c: the callbacks of streamed and prepared transactions.
 *
 * The plugin turns both off, so that a transaction comes whole, at its commit.
 * Some servers still call the ends of such transactions; those mean nothing
 * here. Changes, if any came this way, could only be lost: an error says so.
 */
#include "clairon.h"

static _Noreturn void
refuse(void)
{
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot decode a transaction before its commit")));
}

static bool
filter_prepare(LogicalDecodingContext *ctx, TransactionId xid, const char *gid)
{
    return true;
}

static void
begin_prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    refuse();
}

static void
prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
    refuse();
}

static void
rollback_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr end_lsn,
                  TimestampTz time)
{
}

static void
stream_edge(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
}

static void
stream_abort(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
}

static void
stream_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
              ReorderBufferChange *change)
{
    refuse();
}

static void
stream_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn,
               bool transactional, const char *prefix, Size size, const char *message)
{
    if (transactional)
        refuse();
}

static void
stream_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[],
                ReorderBufferChange *change)
{
    refuse();
}

void
stream_init(OutputPluginCallbacks *callbacks)
{
    callbacks->filter_prepare_cb = filter_prepare;
    callbacks->begin_prepare_cb = begin_prepare;
    callbacks->prepare_cb = prepare;
    callbacks->commit_prepared_cb = prepare;
    callbacks->rollback_prepared_cb = rollback_prepared;
    callbacks->stream_start_cb = stream_edge;
    callbacks->stream_stop_cb = stream_edge;
    callbacks->stream_abort_cb = stream_abort;
    callbacks->stream_prepare_cb = prepare;
    callbacks->stream_commit_cb = prepare;
    callbacks->stream_change_cb = stream_change;
    callbacks->stream_message_cb = stream_message;
    callbacks->stream_truncate_cb = stream_truncate;
}
