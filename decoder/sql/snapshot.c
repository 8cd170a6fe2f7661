/*
 * snapshot.c: clairon.snapshot(), the calling statement's snapshot as text.
 *
 * A client compares the text with the id of a notification's top-level transaction. The change is
 * contained in the snapshot if the id is below xmin, or below xmax and not in the list. The list is
 * exact for top-level ids, since PostgreSQL determines visibility by the same lists
 * (XidInMVCCSnapshot). On a primary, `xip` contains the running top-level transactions. On a
 * standby, `subxip` contains all running ids, and `xip` is empty, so pg_current_snapshot() shows
 * these transactions as finished. An overflow never removes a top-level id: KnownAssignedXids drops
 * only subtransactions, whose parents are then found in pg_subtrans. The subtransaction ids in
 * `subxip` are harmless.
 */
#include "sql/snapshot.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/data.h"

PG_FUNCTION_INFO_V1(clairon_snapshot);

static int
compare_ids(const void *a, const void *b)
{
    const uint64 left = *(const uint64 *)a;
    const uint64 right = *(const uint64 *)b;

    return left < right ? -1 : left > right;
}

/*
 * The caller's own transaction, if it has an id, counts as not contained: only its earlier changes
 * are visible to the snapshot. Applying these again yields the same rows, while a skipped later
 * change would be lost.
 */
static int
list_running(Snapshot snapshot, FullTransactionId next, uint64 *ids)
{
    const TransactionId *running = snapshot->takenDuringRecovery ? snapshot->subxip : snapshot->xip;
    int count = snapshot->takenDuringRecovery ? snapshot->subxcnt : (int)snapshot->xcnt;
    TransactionId own = GetTopTransactionIdIfAny();

    for (int i = 0; i < count; i++)
        ids[i] = full_xid(running[i], next);
    if (TransactionIdIsValid(own) && TransactionIdPrecedes(own, snapshot->xmax))
        ids[count++] = full_xid(own, next);
    qsort(ids, count, sizeof(*ids), compare_ids);
    return count;
}

/* The bytes of the page header before this position, if the page has no record yet. */
static XLogRecPtr
empty_page_bytes(XLogRecPtr at)
{
    const XLogRecPtr offset = at % XLOG_BLCKSZ;
    const bool is_first = XLogSegmentOffset(at, wal_segment_size) < XLOG_BLCKSZ;

    return offset <= (is_first ? SizeOfXLogLongPHD : SizeOfXLogShortPHD) ? offset : 0;
}

/*
 * After a crash, PostgreSQL reuses an id if no WAL record of its transaction was flushed, for
 * example because it was rolled back. A snapshot from before the crash would then include the later
 * transaction, and clients would skip its changes. A standby replays only flushed WAL.
 */
static void
flush_finished_transactions(void)
{
    XLogRecPtr end;

    if (RecoveryInProgress())
        return;
    end = GetXLogInsertRecPtr();
    XLogFlush(end - empty_page_bytes(end)); /* XLogFlush rejects a position after the last record */
}

char *
snapshot_text(Snapshot snapshot)
{
    FullTransactionId next = ReadNextFullTransactionId();
    StringInfoData text;
    uint64 *ids;
    int count;

    if (snapshot->snapshot_type != SNAPSHOT_MVCC)
        elog(ERROR, "unexpected snapshot type %d", (int)snapshot->snapshot_type);
    flush_finished_transactions();
    ids = palloc(sizeof(*ids) * (snapshot->xcnt + Max(snapshot->subxcnt, 0) + 1));
    count = list_running(snapshot, next, ids);
    initStringInfo(&text);
    appendStringInfo(&text, UINT64_FORMAT ":" UINT64_FORMAT ":", full_xid(snapshot->xmin, next),
                     full_xid(snapshot->xmax, next));
    for (int i = 0; i < count; i++)
        appendStringInfo(&text, i > 0 ? "," UINT64_FORMAT : UINT64_FORMAT, ids[i]);
    pfree(ids);
    return text.data;
}

/* snapshot() -> text */
Datum
clairon_snapshot(PG_FUNCTION_ARGS)
{
    PG_RETURN_TEXT_P(cstring_to_text(snapshot_text(GetActiveSnapshot())));
}
