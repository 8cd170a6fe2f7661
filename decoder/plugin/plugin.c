/* plugin.c: the callbacks of the output plugin, startup and shutdown. */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/sandbox.h"
#include "decoder.h"
#include "encode/encode.h"
#include "output/output.h"
#include "plan/plan.h"
#include "plugin/page_hook.h"
#include "plugin/stream.h"
#include "plugin/transaction.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *callbacks);

/*
 * A walsender keeps the settings for the session. SQL functions restore them at the end of the
 * call.
 */
static void
fix_settings(struct decoder *decoder)
{
    bool local = IsTransactionState();
    GucAction action = local ? GUC_ACTION_SAVE : GUC_ACTION_SET;

    decoder->guc_level = local ? NewGUCNestLevel() : 0;
    output_settings_fix(action);
    /* Spool files replace the server's spill files, which have no limit either. */
    (void)set_config_option("temp_file_limit", "-1", PGC_SUSET, PGC_S_SESSION, action, true, 0,
                            false);
#if PG_VERSION_NUM >= 170000
    /* Decoding runs in a transaction, which would exceed the timeout again at each attempt. */
    if (!local)
        (void)set_config_option("transaction_timeout", "0", PGC_SUSET, PGC_S_SESSION,
                                GUC_ACTION_SET, true, 0, false);
#endif
}

static char *
database_name(void)
{
    bool started = IsTransactionState();
    MemoryContext context = CurrentMemoryContext;
    char *name;

    if (!started)
        StartTransactionCommand();
    name = MemoryContextStrdup(context, get_database_name(MyDatabaseId));
    if (!started)
        CommitTransactionCommand();
    MemoryContextSwitchTo(context);
    return name;
}

/*
 * Memory of large rows and plans returns to the system when it is freed: glibc would keep up to
 * 64 MB, once it has freed a large block.
 */
static void
limit_free_memory(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
#endif
}

static void
clairon_startup(LogicalDecodingContext *ctx, OutputPluginOptions *output, bool is_init)
{
    struct decoder *decoder = MemoryContextAllocZero(ctx->context, sizeof(*decoder));
    MemoryContext old;

    decoder->context = AllocSetContextCreate(ctx->context, "clairon", ALLOCSET_DEFAULT_SIZES);
    decoder->change_context =
        AllocSetContextCreate(decoder->context, "clairon change", ALLOCSET_DEFAULT_SIZES);
    decoder->rules_context =
        AllocSetContextCreate(decoder->context, "clairon rules", ALLOCSET_DEFAULT_SIZES);
    decoder->spare_context =
        AllocSetContextCreate(decoder->context, "clairon rules", ALLOCSET_DEFAULT_SIZES);
    if (MyBackendType == B_WAL_SENDER)
        limit_free_memory();
    old = MemoryContextSwitchTo(decoder->context);
    options_read(&decoder->options, ctx->output_plugin_options, is_init ? "" : database_name());
    decoder->settings.ascii = !decoder->options.framed && GetDatabaseEncoding() != PG_UTF8;
    decoder->settings.numeric_as_number = decoder->options.numeric_as_number;
    decoder->settings.limit = PG_INT32_MAX;
    decoder->system_identifier = GetSystemIdentifier();
    decoder->slot = NameStr(ctx->slot->data.name);
    decoder->accounts = accounts_new(&decoder->options.owner);
    decoder->sandbox = sandbox_new(decoder->options.condition_timeout_ms, decoder->accounts);
    relation_setup(decoder);
    warning_setup(decoder);
    MemoryContextSwitchTo(old);
    if (is_init)
        accounts_forget_report(decoder->slot);
    else
        fix_settings(decoder);
    ctx->output_plugin_private = decoder;
    spool_setup(ctx);
    if (!is_init)
        page_hook_setup(ctx);
    output->output_type =
        decoder->options.framed ? OUTPUT_PLUGIN_BINARY_OUTPUT : OUTPUT_PLUGIN_TEXTUAL_OUTPUT;
    output->receive_rewrites = false;
    /* Nothing is sent before the commit, even with a two-phase slot. */
    ctx->streaming &= decoder->options.streaming;
    ctx->twophase = false;
}

static void
clairon_shutdown(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    accounts_report(decoder->accounts, decoder->slot, true);
    if (decoder->guc_level > 0)
        AtEOXact_GUC(false, decoder->guc_level);
    MemoryContextDelete(decoder->context);
}

void
_PG_output_plugin_init(OutputPluginCallbacks *callbacks)
{
    callbacks->startup_cb = clairon_startup;
    callbacks->begin_cb = clairon_begin;
    callbacks->change_cb = clairon_change;
    callbacks->truncate_cb = clairon_truncate;
    callbacks->message_cb = clairon_message;
    callbacks->commit_cb = clairon_commit;
    callbacks->shutdown_cb = clairon_shutdown;
    stream_init(callbacks);
}
