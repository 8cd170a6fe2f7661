/*
 * plugin.c: the callbacks of the output plugin, in the order of a session: startup, transactions,
 * streamed transactions, shutdown; and a hook before the server reads each page of WAL.
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogreader.h"
#include "access/xlogrecovery.h"
#include "catalog/namespace.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/sandbox.h"
#include "changes/changes.h"
#include "decoder.h"
#include "encode/encode.h"
#include "output/output.h"
#include "plan/plan.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *callbacks);

/*
 * A hook before the server reads each page of WAL.
 *
 * An output plugin has no callback between changes. Three tasks need one: buffered frames must be
 * sent before the server waits for more WAL, a stream must end when a standby is promoted, and
 * streaming of open transactions depends on the contents of the reorder buffer. So the page_read
 * callback of the server's WAL reader is wrapped.
 *
 * Only this file uses these server internals, which are the same in PostgreSQL 15 to 18:
 *   XLogReaderState.routine.page_read, .private_data   the callback, and the decoding context
 *   LogicalDecodingContext.streaming                   read by the server at each change
 *   ReorderBuffer.size, .toplevel_by_lsn               memory use, and the open transactions
 *   ReorderBufferTXN.ntuplecids, .txn_flags            whether a transaction changes catalogs
 */

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "plugin.c uses internals of PostgreSQL that were checked for versions 15 to 18"
#endif

/*
 * The memory that decoding one page of WAL may add: a COPY row takes 10 bytes in WAL and 136 in
 * memory.
 */
#define PAGE_CHANGES_BYTES (16 * XLOG_BLCKSZ)

/* Returns the timeline that this server writes or replays now. */
static TimeLineID
server_timeline(void)
{
    TimeLineID timeline;

    if (!RecoveryInProgress())
        return GetWALInsertionTimeLine();
    GetXLogReplayRecPtr(&timeline);
    return timeline;
}

/*
 * A client's LSNs belong to the timeline that it requested at its start. After its promotion, a
 * standby decodes on a new timeline. The stream ends before the first page of that timeline. When
 * the client starts again, it checks its progress against the timeline history.
 */
static void
check_timeline(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;
    TimeLineID timeline = server_timeline();

    if (timeline != decoder->timeline)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("timeline of this server changed from %u to %u", decoder->timeline,
                               timeline),
                        errhint("Restart replication.")));
}

static bool
changes_catalog(LogicalDecodingContext *ctx)
{
    dlist_iter iter;

    dlist_foreach(iter, &ctx->reorder->toplevel_by_lsn)
    {
        if (dlist_container(ReorderBufferTXN, node, iter.cur)->ntuplecids > 0)
            return true;
    }
    return false;
}

/*
 * While streaming is off, the server does not track incomplete changes, so no open transaction can
 * be streamed.
 */
static void
mark_open_partial(LogicalDecodingContext *ctx)
{
    dlist_iter iter;

    dlist_foreach(iter, &ctx->reorder->toplevel_by_lsn)
    {
        dlist_container(ReorderBufferTXN, node, iter.cur)->txn_flags |= RBTXN_HAS_PARTIAL_CHANGE;
    }
}

/*
 * A transaction that changes catalogs, or rules, is not streamed. Minor releases without
 * ReorderBufferCleanupAbortedTupleCids (15.18, but not 15.20) keep the catalog changes of a rolled
 * back subtransaction. A catalog row that the transaction deletes later in the WAL then appears
 * deleted too early, so that a rule or a column is missing. The minor release is not known at
 * compile time. The check is necessary only near the memory limit.
 */
static void
decide_streaming(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (!decoder->options.streaming ||
        ctx->reorder->size + PAGE_CHANGES_BYTES < (Size)logical_decoding_work_mem * 1024)
        return;
    if (changes_catalog(ctx)) {
        ctx->streaming = false;
    } else if (!ctx->streaming) {
        mark_open_partial(ctx);
        ctx->streaming = true;
    }
}

static int
read_page(XLogReaderState *reader, XLogRecPtr page, int bytes, XLogRecPtr target, char *buffer)
{
    LogicalDecodingContext *ctx = reader->private_data;
    struct decoder *decoder = ctx->output_plugin_private;

    frames_flush(ctx);
    if (decoder->accounts->is_unreported) {
        XLogRecPtr available =
            RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetFlushRecPtr(NULL);

        /* Immediately if the server will wait for WAL. */
        accounts_report(decoder->accounts, decoder->slot, page + bytes > available);
    }
    decide_streaming(ctx);
    bytes = decoder->read_page(reader, page, bytes, target, buffer);
    if (decoder->buffers_frames)
        check_timeline(ctx);
    return bytes;
}

static void
page_hook_setup(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    /* SQL functions stop at an LSN and do not wait for more WAL. */
    decoder->buffers_frames = decoder->options.framed && !IsTransactionState();
    if (decoder->buffers_frames)
        decoder->timeline = server_timeline();
    decoder->read_page = ctx->reader->routine.page_read;
    ctx->reader->routine.page_read = read_page;
}

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
    lines_setup(decoder);
    if (!is_init)
        page_hook_setup(ctx);
    output->output_type =
        decoder->options.framed ? OUTPUT_PLUGIN_BINARY_OUTPUT : OUTPUT_PLUGIN_TEXTUAL_OUTPUT;
    output->receive_rewrites = false;
    /* Nothing is sent before the commit, even with a two-phase slot. */
    ctx->streaming &= decoder->options.streaming;
}

/* A progress message is sent after this number of changes without a write. */
#define PROGRESS_EVERY 100

static void
clairon_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    frames_begin_transaction(ctx, txn);
}

/* Sends a progress message when there was no write for a while. */
static void
report_progress(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (++decoder->skipped < PROGRESS_EVERY)
        return;
    decoder->skipped = 0;
    frames_flush(ctx);
    lines_flush(decoder);
#if PG_VERSION_NUM < 160000
    /* Since PostgreSQL 16 the server sends progress messages. */
    OutputPluginUpdateProgress(ctx, false);
#endif
}

static bool
has_own_name(Relation relation, const char *name)
{
    return strcmp(RelationGetRelationName(relation), name) == 0 &&
           RelationGetNamespace(relation) == get_namespace_oid("clairon", true);
}

/*
 * Handles changes of clairon.rule and clairon.reload, to which no rule applies. Each such row has a
 * new snapshot, so rules would be looked up once per row. Returns false for other tables.
 */
static bool
change_own_table(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
                 ReorderBufferChange *change)
{
    if (RelationIsUsedAsCatalogTable(relation)) {
        if (!has_own_name(relation, "rule"))
            return false;
        relation_rule_written(ctx->output_plugin_private, txn->xid, relation, change);
        return true;
    }
    if (!has_own_name(relation, "reload"))
        return false;
    reload_change(ctx, relation, change);
    return true;
}

static void
clairon_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
               ReorderBufferChange *change)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct plan_set *set;
    MemoryContext old;

    decoder->change_number++;
    old = MemoryContextSwitchTo(decoder->change_context);
    if (!change_own_table(ctx, txn, relation, change)) {
        set = relation_look_up(decoder, relation, txn->xid);
        if (set != NULL && set->kind == RELATION_MEMBER)
            member_change(ctx, set, relation, change);
        else if (set != NULL)
            change_row(ctx, set, relation, change);
    }
    MemoryContextSwitchTo(old);
    MemoryContextReset(decoder->change_context);
    report_progress(ctx);
}

static void
clairon_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count,
                 Relation relations[], ReorderBufferChange *change)
{
    struct decoder *decoder = ctx->output_plugin_private;
    MemoryContext old = MemoryContextSwitchTo(decoder->change_context);

    for (int i = 0; i < count; i++) {
        struct plan_set *set;

        /* Each table needs a separate change number. */
        decoder->change_number++;
        if (has_own_name(relations[i], "rule"))
            relation_forget_rules(decoder);
        set = relation_look_up(decoder, relations[i], txn->xid);
        if (set != NULL)
            change_truncate(ctx, set, relations[i], change);
    }
    MemoryContextSwitchTo(old);
    MemoryContextReset(decoder->change_context);
    report_progress(ctx);
}

static void
clairon_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn,
                bool transactional, const char *prefix, Size size, const char *message)
{
    struct decoder *decoder = ctx->output_plugin_private;
    MemoryContext old;

    if (!transactional)
        return;
    if (strcmp(prefix, MESSAGE_PREFIX) == 0) {
        old = MemoryContextSwitchTo(decoder->change_context);
        notify_write(ctx, txn, message, size);
        MemoryContextSwitchTo(old);
        MemoryContextReset(decoder->change_context);
    } else if (strcmp(prefix, MESSAGE_ANNOTATION_PREFIX) == 0) {
        old = MemoryContextSwitchTo(decoder->change_context);
        annotation_decode(ctx, txn, message, size);
        MemoryContextSwitchTo(old);
        MemoryContextReset(decoder->change_context);
    } else if (strcmp(prefix, MESSAGE_REPEAT_PREFIX) == 0 && decoder->options.framed) {
        notify_count_repeat(decoder);
    }
    report_progress(ctx);
}

static void
clairon_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
    struct decoder *decoder = ctx->output_plugin_private;

    frames_end_transaction(ctx, txn);
    accounts_report(decoder->accounts, decoder->slot, false);
    OutputPluginUpdateProgress(ctx, !decoder->wrote);
}

/*
 * The callbacks for streamed transactions.
 *
 * When its memory is full, the server streams the largest open transaction. Its changes are
 * rendered by the rules at their WAL position, spooled, and sent at the commit. Without callbacks
 * for prepared transactions, the server decodes these at COMMIT PREPARED, even if the slot allows
 * two-phase decoding.
 */

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
 * Records of aborted subtransactions need no action, because the commit lists the committed
 * subtransactions.
 */
static void
stream_abort(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
    if (txn->toptxn == NULL)
        spool_drop(ctx->output_plugin_private, txn);
    else
        spool_abort_xact(txn->toptxn, txn->xid);
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

static void
clairon_shutdown(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    accounts_report(decoder->accounts, decoder->slot, true);
    if (decoder->guc_level > 0)
        AtEOXact_GUC(false, decoder->guc_level);
    MemoryContextDelete(decoder->context);
}

static void
stream_init(OutputPluginCallbacks *callbacks)
{
    callbacks->stream_start_cb = stream_start;
    callbacks->stream_stop_cb = stream_stop;
    callbacks->stream_abort_cb = stream_abort;
    callbacks->stream_commit_cb = stream_commit;
    callbacks->stream_change_cb = stream_change;
    callbacks->stream_message_cb = stream_message;
    callbacks->stream_truncate_cb = stream_truncate;
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
