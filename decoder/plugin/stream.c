/*
 * stream.c: the callbacks for streamed and prepared transactions.
 *
 * When its memory is full, the server streams the largest open transaction. Its changes are
 * rendered by the rules at their WAL position, spooled, and sent at the commit. Two-phase decoding
 * is off: a prepared transaction is decoded at COMMIT PREPARED.
 */
#include "plugin/stream.h"

#include "access/xact.h"

#include "changes/changes.h"
#include "decoder.h"
#include "output/output.h"
#include "plan/plan.h"
#include "plugin/transaction.h"

static _Noreturn void
reject(void)
{
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot decode a prepared transaction before its commit")));
}

static bool
filter_prepare(LogicalDecodingContext *ctx, TransactionId xid, const char *gid)
{
    return true;
}

static void
begin_prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    reject();
}

static void
prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
    reject();
}

static void
rollback_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr end_lsn,
                  TimestampTz time)
{
}

/*
 * Rules that were read in a block of a transaction that changed catalogs may include rows of a
 * subtransaction that is rolled back later, or rows whose changes are not decoded yet.
 */
static void
forget_own_rules(struct decoder *decoder, const ReorderBufferTXN *txn)
{
    if (txn->ntuplecids > 0)
        relation_forget_rules(decoder);
}

static void
stream_start(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    struct decoder *decoder = ctx->output_plugin_private;

    frames_flush(ctx);
    forget_own_rules(decoder, txn);
    spool_begin_block(decoder, txn);
    warning_begin_block(decoder);
}

/* Called even after an error, because a transaction may abort while it is decoded. */
static void
stream_stop(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    struct decoder *decoder = ctx->output_plugin_private;

    decoder->settings.limit = PG_INT32_MAX;
    warning_spool_counts(decoder);
    forget_own_rules(decoder, txn);
    spool_end_block(decoder);
}

/*
 * Aborted subtransactions need no action, because the commit lists the committed subtransactions.
 */
static void
stream_abort(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
    if (txn->toptxn == NULL)
        spool_drop(ctx->output_plugin_private, txn);
}

static void
stream_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
    frames_flush(ctx);
    frames_begin_transaction(ctx, txn);
    replay_transaction(ctx, txn);
    spool_drop(ctx->output_plugin_private, txn);
    clairon_commit(ctx, txn, lsn);
}

static void
switch_xact(struct decoder *decoder, TransactionId xid)
{
    if (spool_is_in_xact(decoder, xid))
        return;
    warning_spool_counts(decoder); /* of the previous subtransaction */
    spool_switch_xact(decoder, xid);
}

static void
stream_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
              ReorderBufferChange *change)
{
    switch_xact(ctx->output_plugin_private, change->txn->xid);
    clairon_change(ctx, txn, relation, change);
}

/*
 * The server does not pass the subtransaction of a message, but sets CheckXidAlive to it unless it
 * has committed. In that case the top transaction is correct too.
 */
static void
stream_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn,
               bool transactional, const char *prefix, Size size, const char *message)
{
    if (!transactional)
        return;
    switch_xact(ctx->output_plugin_private,
                TransactionIdIsValid(CheckXidAlive) ? CheckXidAlive : txn->xid);
    clairon_message(ctx, txn, lsn, transactional, prefix, size, message);
}

static void
stream_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[],
                ReorderBufferChange *change)
{
    switch_xact(ctx->output_plugin_private, change->txn->xid);
    clairon_truncate(ctx, txn, count, relations, change);
}

void
stream_init(OutputPluginCallbacks *callbacks)
{
    callbacks->filter_prepare_cb = filter_prepare;
    callbacks->begin_prepare_cb = begin_prepare;
    callbacks->prepare_cb = prepare;
    callbacks->commit_prepared_cb = prepare;
    callbacks->rollback_prepared_cb = rollback_prepared;
    callbacks->stream_start_cb = stream_start;
    callbacks->stream_stop_cb = stream_stop;
    callbacks->stream_abort_cb = stream_abort;
    callbacks->stream_prepare_cb = prepare;
    callbacks->stream_commit_cb = stream_commit;
    callbacks->stream_change_cb = stream_change;
    callbacks->stream_message_cb = stream_message;
    callbacks->stream_truncate_cb = stream_truncate;
}
