/*
 * page_hook.c: a hook before the server reads each page of WAL.
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
#include "plugin/page_hook.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogreader.h"
#include "access/xlogrecovery.h"

#include "decoder.h"
#include "output/output.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "page_hook.c uses internals of PostgreSQL that were checked for versions 15 to 18"
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

/* The end of the WAL that can be read without waiting. */
static XLogRecPtr
available_wal(void)
{
    return RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetFlushRecPtr(NULL);
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
    if (decoder->accounts->is_unreported)
        accounts_report(decoder->accounts, decoder->slot, page + bytes > available_wal());
    decide_streaming(ctx);
    bytes = decoder->read_page(reader, page, bytes, target, buffer);
    if (decoder->buffers_frames)
        check_timeline(ctx);
    return bytes;
}

void
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
