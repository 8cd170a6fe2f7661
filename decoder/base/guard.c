/* guard.c: run what an extension's code may break, and go on. */
#include "base/guard.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

static bool
may_swallow(const ErrorData *error)
{
    int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

    return category != ERRCODE_INSUFFICIENT_RESOURCES &&
           category != ERRCODE_OPERATOR_INTERVENTION && category != ERRCODE_TRANSACTION_ROLLBACK &&
           error->sqlerrcode != ERRCODE_IO_ERROR;
}

bool
guard_run(void (*work)(void *arg), void *arg, char **ret_reason)
{
    MemoryContext context = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    TransactionId watched = CheckXidAlive;
    volatile bool done = false;

    BeginInternalSubTransaction(NULL);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        work(arg);
        ReleaseCurrentSubTransaction();
        done = true;
    }
    PG_CATCH();
    {
        ErrorData *error;

        MemoryContextSwitchTo(context);
        error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        MemoryContextSwitchTo(context);
        CurrentResourceOwner = owner;
        /* The end of a subtransaction ends the watch over the transaction that is decoded. */
        CheckXidAlive = watched;
        if (!may_swallow(error))
            ReThrowError(error);
        *ret_reason = pstrdup(error->message);
        FreeErrorData(error);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return done;
}

bool
guard_try(void (*work)(void *arg), void *arg, char **ret_reason)
{
    MemoryContext context = CurrentMemoryContext;
    volatile bool done = false;

    PG_TRY();
    {
        work(arg);
        done = true;
    }
    PG_CATCH();
    {
        ErrorData *error;

        MemoryContextSwitchTo(context);
        error = CopyErrorData();
        if (!may_swallow(error))
            PG_RE_THROW();
        FlushErrorState();
        *ret_reason = error->message;
    }
    PG_END_TRY();
    return done;
}
