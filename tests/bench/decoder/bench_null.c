/* bench_null.c: an output plugin that does nothing: the cost of decoding without a plugin. */
#include "postgres.h"

#include "fmgr.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *callbacks);

static void
null_startup(LogicalDecodingContext *ctx, OutputPluginOptions *options, bool is_init)
{
    options->output_type = OUTPUT_PLUGIN_BINARY_OUTPUT;
}

static void
null_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
}

static void
null_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
            ReorderBufferChange *change)
{
}

static void
null_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
}

void
_PG_output_plugin_init(OutputPluginCallbacks *callbacks)
{
    callbacks->startup_cb = null_startup;
    callbacks->begin_cb = null_begin;
    callbacks->change_cb = null_change;
    callbacks->commit_cb = null_commit;
}
