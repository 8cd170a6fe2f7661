/* guard.c: run code of extensions, recover from its errors, and limit the caches that it fills. */
#include "base/guard.h"

#include "access/xact.h"
#include "utils/catcache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

static bool
is_recoverable(const ErrorData *error)
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
        /*
         * The end of a subtransaction resets CheckXidAlive, which must name the decoded
         * transaction.
         */
        CheckXidAlive = watched;
        if (!is_recoverable(error))
            ReThrowError(error);
        *ret_reason = error->detail == NULL ? pstrdup(error->message)
                                            : psprintf("%s. %s", error->message, error->detail);
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
        if (!is_recoverable(error))
            PG_RE_THROW();
        FlushErrorState();
        *ret_reason = error->message;
    }
    PG_END_TRY();
    return done;
}

/*
 * The lookups and the growth after which the catalog caches are emptied. The result for an unknown
 * object takes 150 bytes, the row of a function as much as its source. Filling the caches again
 * costs few microseconds for each object in use.
 */
#define LOOKUPS_MAX 4096
#define GROWTH_MAX (16 * 1024 * 1024)

void
guard_catalog_caches(Size lookups)
{
    static Size since;
    static Size bytes;

    if (since + lookups <= LOOKUPS_MAX &&
        MemoryContextMemAllocated(CacheMemoryContext, false) <= bytes + GROWTH_MAX) {
        since += lookups;
        return;
    }
    ResetCatalogCaches();
    since = lookups;
    bytes = MemoryContextMemAllocated(CacheMemoryContext, false);
}
