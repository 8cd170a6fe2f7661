/*
 * live_position.c: clairon.live_position(): how transactions have ended, and a WAL position behind
 * the commits of all transactions that the calling statement can see.
 */
#include "sql/user_rows.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(clairon_live_position);

/* Outcomes in the result; relay/rows/position.c has the same letters. */
#define COMMITTED 'c'
#define ROLLED_BACK 'r'
#define RUNNING 'w'    /* or prepared */
#define FORGOTTEN 'f'  /* PostgreSQL has removed its status */
#define UNASSIGNED 'u' /* no transaction has had this id */
#define AHEAD 'a'      /* no transaction on this standby, which may be behind */

/*
 * The top-level transaction of a recent subtransaction. On a standby the parent of one that was
 * rolled back may be unknown: then it is the id itself.
 */
static TransactionId
top_of(TransactionId xid)
{
    return TransactionIdFollowsOrEquals(xid, TransactionXmin) ? SubTransGetTopmostTransaction(xid)
                                                              : xid;
}

static char
status_of(FullTransactionId id)
{
    LOCAL_FCINFO(call, 1);
    Datum status;

    InitFunctionCallInfoData(*call, NULL, 1, InvalidOid, NULL, NULL);
    call->args[0].value = FullTransactionIdGetDatum(id);
    call->args[0].isnull = false;
    status = pg_xact_status(call);
    if (call->isnull)
        return FORGOTTEN;
    switch (text_to_cstring(DatumGetTextPP(status))[0]) {
    case 'c': /* committed */
        return COMMITTED;
    case 'a': /* aborted */
        return ROLLED_BACK;
    default: /* in progress */
        return RUNNING;
    }
}

/*
 * A subtransaction has its own outcome, once its top-level transaction has ended. A transaction
 * that is committed here is visible to new snapshots.
 */
static char
outcome_of(uint64 number)
{
    const FullTransactionId id = FullTransactionIdFromU64(number);
    const FullTransactionId next = ReadNextFullTransactionId();
    const TransactionId xid = XidFromFullTransactionId(id);
    char status;

    if (!TransactionIdIsNormal(xid))
        return UNASSIGNED;
    if (FullTransactionIdFollowsOrEquals(id, next))
        return RecoveryInProgress() ? AHEAD : UNASSIGNED;
    status = status_of(id);
    if (status == ROLLED_BACK && full_xid(xid, next) == number &&
        TransactionIdIsInProgress(top_of(xid)))
        return RUNNING;
    return status;
}

/* Adds the outcomes of the comma-separated ids. */
static void
add_outcomes(const char *ids, StringInfo result)
{
    char *end;

    for (const char *at = ids; *at != '\0'; at = *end == ',' ? end + 1 : end) {
        const uint64 number = strtou64(at, &end, 10);

        if (end == at || (*end != ',' && *end != '\0'))
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                     errmsg("invalid value for parameter \"%s\"", "xids"),
                     errhint("The value must be a comma-separated list of transaction ids.")));
        appendStringInfoChar(result, outcome_of(number));
    }
}

/*
 * live_position(xids text) -> text. The snapshot of the statement precedes the position, and the
 * outcomes do too: so the position is behind all commits that are visible or reported.
 */
Datum
clairon_live_position(PG_FUNCTION_ARGS)
{
    StringInfoData outcomes, result;
    TimeLineID timeline;
    XLogRecPtr position;

    initStringInfo(&outcomes);
    initStringInfo(&result);
    add_outcomes(text_to_cstring(PG_GETARG_TEXT_PP(0)), &outcomes);
    if (RecoveryInProgress()) {
        /* A commit becomes visible before its record counts as replayed. */
        position = GetCurrentReplayRecPtr(&timeline);
    } else {
        position = flush_finished_transactions(); /* walsenders read flushed WAL only */
        timeline = GetWALInsertionTimeLine();
    }
    appendStringInfo(&result, "%u:" UINT64_FORMAT ":%s", timeline, (uint64)position, outcomes.data);
    PG_RETURN_TEXT_P(cstring_to_text_with_len(result.data, result.len));
}
