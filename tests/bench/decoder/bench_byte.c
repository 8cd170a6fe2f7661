/* bench_byte.c: an output plugin that writes one byte per change: the minimum cost of messages. */
#include "postgres.h"

#include "fmgr.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *callbacks);

static void
byte_startup(LogicalDecodingContext *ctx, OutputPluginOptions *options, bool is_init)
{
    options->output_type = OUTPUT_PLUGIN_BINARY_OUTPUT;
}

static void
byte_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
}

static void
byte_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
            ReorderBufferChange *change)
{
    OutputPluginPrepareWrite(ctx, true);
    appendStringInfoChar(ctx->out, 'x');
    OutputPluginWrite(ctx, true);
}

static void
byte_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
}

void
_PG_output_plugin_init(OutputPluginCallbacks *callbacks)
{
    callbacks->startup_cb = byte_startup;
    callbacks->begin_cb = byte_begin;
    callbacks->change_cb = byte_change;
    callbacks->commit_cb = byte_commit;
}
