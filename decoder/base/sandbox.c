/* sandbox.c: run code of extensions and table owners, with limits on time and memory. */
#include "base/sandbox.h"

#include <sys/resource.h>
#include <unistd.h>

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/catcache.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "base/account.h"

/* True for errors that report a shutdown or a lack of resources: a later attempt may succeed. */
static bool
ends_session(int code)
{
    int category = ERRCODE_TO_CATEGORY(code);

    return category == ERRCODE_INSUFFICIENT_RESOURCES ||
           category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_TRANSACTION_ROLLBACK ||
           code == ERRCODE_IO_ERROR;
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
        if (ends_session(error->sqlerrcode))
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
        if (ends_session(error->sqlerrcode))
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

/* The limit of real time, as a multiple of the timeout. */
#define ELAPSED_TIMEOUTS 10

/* Timer ticks per timeout. */
#define TICKS_PER_TIMEOUT 4

/* The maximum length of an error message, which may contain a value of the row. */
#define REASON_BYTES_MAX 500

/* Number of runs after which the size of the process is read again. */
#define RUNS_PER_MEMORY_CHECK 1024

struct tracked_memory {
    MemoryContextCallback on_reset;
    MemoryContext context;
    struct sandbox *sandbox;
    struct account *account;
    bool recurse;
    int64 bytes; /* size at the last count */
};

struct sandbox {
    int timeout_ms;
    struct accounts *accounts;
    Oid over_budget_owner;
    int64 process_bytes; /* last known size of the process; 0: unknown */
    int runs;            /* since process_bytes was read */
};

/* A run; the signal handler reads the current run. */
struct run {
    struct sandbox *sandbox;
    Oid user;
    void (*work)(void *arg);
    void *arg;
    TimestampTz start;
    int64 cpu_start_us;
    bool out_of_memory;
};

static struct run *volatile current;
static volatile sig_atomic_t expired;
static TimeoutId timer = MAX_TIMEOUTS;

static int64
tick_us(const struct run *run)
{
    return run->sandbox->timeout_ms * INT64CONST(1000) / TICKS_PER_TIMEOUT;
}

/*
 * Ends the run like a query cancel, for code that checks QueryCancelPending only. A pending cancel
 * request is still handled as a cancel request.
 */
static void
on_timer(void)
{
    struct run *run = current;
    int64 limit_us;

    if (run == NULL || expired || QueryCancelPending)
        return;
    limit_us = tick_us(run) * TICKS_PER_TIMEOUT;
    /*
     * On a busy machine, real time includes the time of other processes. The clocks and the timer
     * differ by microseconds.
     */
    if (account_cpu_us() - run->cpu_start_us < limit_us - tick_us(run) / 4 &&
        GetCurrentTimestamp() - run->start < limit_us * ELAPSED_TIMEOUTS)
        return;
    expired = true;
    QueryCancelPending = true;
    InterruptPending = true;
}

#ifdef __linux__
static struct rlimit usual_limit;
static bool is_limited;

/* The bytes that RLIMIT_DATA counts, data and stack; 0: unknown. */
static int64
read_process_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    char line[256];
    char *at = line;
    int64 pages = 0;

    if (file == NULL)
        return 0;
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    for (int field = 0; field < 6; field++)
        pages = strtoll(at, &at, 10);
    return pages * sysconf(_SC_PAGESIZE);
}

static void
unlimit_memory(void)
{
    if (is_limited)
        (void)setrlimit(RLIMIT_DATA, &usual_limit);
    is_limited = false;
}

/*
 * Above the limit malloc() fails, and palloc() raises an ordinary error. The stack is not limited:
 * if it cannot grow, the process crashes.
 */
static void
limit_memory(struct sandbox *sandbox)
{
    struct rlimit limit;

    if (sandbox->process_bytes == 0 || ++sandbox->runs >= RUNS_PER_MEMORY_CHECK) {
        sandbox->process_bytes = read_process_bytes();
        sandbox->runs = 0;
    }
    if (sandbox->process_bytes == 0)
        return;
    limit = usual_limit;
    limit.rlim_cur = Min(usual_limit.rlim_cur, (rlim_t)sandbox->process_bytes + SANDBOX_MEMORY);
    is_limited = setrlimit(RLIMIT_DATA, &limit) == 0;
}
#else
static const bool is_limited = false;

static void
unlimit_memory(void)
{
}

static void
limit_memory(struct sandbox *sandbox)
{
}
#endif

/* The memory limit must not apply while the session exits. */
static void
on_process_exit(int code, Datum arg)
{
    current = NULL;
    unlimit_memory();
}

struct sandbox *
sandbox_new(int timeout_ms, struct accounts *accounts)
{
    struct sandbox *sandbox = palloc0(sizeof(*sandbox));

    sandbox->accounts = accounts;
    sandbox->timeout_ms = timeout_ms;
#ifdef __linux__
    if (getrlimit(RLIMIT_DATA, &usual_limit) != 0)
        elog(ERROR, "could not read the memory limit: %m");
#endif
    if (timer == MAX_TIMEOUTS) {
        timer = RegisterTimeout(USER_TIMEOUT, on_timer);
        before_shmem_exit(on_process_exit, (Datum)0);
    }
    return sandbox;
}

static void
begin_limits(struct run *run)
{
    int ms = Max(run->sandbox->timeout_ms / TICKS_PER_TIMEOUT, 1);

    expired = false;
    run->out_of_memory = false;
    run->start = GetCurrentTimestamp();
    run->cpu_start_us = account_cpu_us();
    current = run;
    enable_timeout_every(timer, TimestampTzPlusMilliseconds(run->start, ms), ms);
    limit_memory(run->sandbox);
}

/* Also called when the timer expired just after the work ended. */
static void
end_limits(void)
{
    unlimit_memory();
    current = NULL;
    disable_timeout(timer, false);
    if (expired)
        QueryCancelPending = false;
}

/* True when statement_timeout expired during the run, which raises the same error code. */
static bool
statement_timed_out(const struct run *run)
{
    TimestampTz end = get_timeout_finish_time(STATEMENT_TIMEOUT);

    return StatementTimeout > 0 && end > run->start && end <= GetCurrentTimestamp();
}

/*
 * guard_run re-throws errors that end a session. An expression can raise such an error itself, at
 * each attempt, so only errors raised by the server itself may pass.
 */
static bool
is_reserved_error(int code)
{
    return code != ERRCODE_QUERY_CANCELED && code != ERRCODE_OUT_OF_MEMORY &&
           code != ERRCODE_T_R_SERIALIZATION_FAILURE && ends_session(code);
}

static _Noreturn void
raise_as_ordinary_error(void)
{
    ErrorData *error = CopyErrorData();

    FlushErrorState();
    ereport(ERROR,
            (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION), errmsg_internal("%s", error->message)));
}

/* Raises the error that ended the run, or an error about the exceeded limit. */
static _Noreturn void
rethrow_limited(struct run *run, bool was_limited)
{
    int code = geterrcode();

    if (code == ERRCODE_QUERY_CANCELED && expired && !statement_timed_out(run)) {
        FlushErrorState();
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("evaluation exceeded condition_timeout (%d ms)",
                               run->sandbox->timeout_ms)));
    }
    if (code == ERRCODE_OUT_OF_MEMORY && was_limited) {
        run->out_of_memory = true;
        FlushErrorState();
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("evaluation exceeded the memory limit (%d MB)",
                               SANDBOX_MEMORY / (1024 * 1024))));
    }
    if (is_reserved_error(code))
        raise_as_ordinary_error();
    PG_RE_THROW();
}

/*
 * Commit and abort of the subtransaction restore XactReadOnly; an abort also restores user,
 * settings and snapshot. Settings of this run must not affect the next condition, which may have
 * another owner.
 */
static void
run_limited(void *arg)
{
    struct run *run = arg;
    MemoryContext context = CurrentMemoryContext;
    int level = NewGUCNestLevel();
    Oid caller;
    int security;

    GetUserIdAndSecContext(&caller, &security);
    SetUserIdAndSecContext(run->user, security | SECURITY_RESTRICTED_OPERATION);
    XactReadOnly = true;
    PushActiveSnapshot(GetCatalogSnapshot(InvalidOid));
    begin_limits(run);
    PG_TRY();
    {
        run->work(run->arg);
        end_limits();
    }
    PG_CATCH();
    {
        bool was_limited = is_limited;

        end_limits();
        MemoryContextSwitchTo(context);
        rethrow_limited(run, was_limited);
    }
    PG_END_TRY();
    PopActiveSnapshot();
    AtEOXact_GUC(false, level);
    SetUserIdAndSecContext(caller, security);
}

char sandbox_no_time[] = "evaluation time limit of the table's owner is reached";

int64
sandbox_memory_limit(const struct sandbox *sandbox)
{
    return sandbox->accounts->limits.memory_bytes;
}

/*
 * True when the process has grown since its size was read, so that the run could not use its full
 * limit.
 */
static bool
has_grown(struct sandbox *sandbox)
{
    int64 known = sandbox->process_bytes;

#ifdef __linux__
    sandbox->process_bytes = read_process_bytes();
#endif
    return sandbox->process_bytes > known;
}

bool
sandbox_run(struct sandbox *sandbox, Oid user, enum sandbox_work kind, void (*work)(void *arg),
            void *arg, char **ret_reason)
{
    const int64 free_us = kind == SANDBOX_EVALUATE ? SANDBOX_FREE_US : 0;
    struct run run = {.sandbox = sandbox, .user = user, .work = work, .arg = arg};
    struct account *account = account_of(sandbox->accounts, user);
    TimestampTz start = GetCurrentTimestamp();
    int64 elapsed_us;
    int64 start_us;
    bool done;

    if (kind == SANDBOX_PREPARE ? !account_may_prepare(sandbox->accounts, account)
                                : !account_has_time(sandbox->accounts, account)) {
        *ret_reason = sandbox_no_time;
        return false;
    }
    start_us = account_cpu_us();
    done = guard_run(run_limited, &run, ret_reason);
    if (!done && run.out_of_memory && has_grown(sandbox))
        done = guard_run(run_limited, &run, ret_reason);
    elapsed_us = GetCurrentTimestamp() - start;
    /* Real time, which may be spent waiting, is charged at 1/ELAPSED_TIMEOUTS. */
    if (elapsed_us > free_us && !(kind == SANDBOX_PREPARE && account->is_trusted))
        account_charge_time(
            account, Max(account_cpu_us() - start_us, elapsed_us / ELAPSED_TIMEOUTS) - free_us);
    if (!done)
        (*ret_reason)[pg_mbcliplen(*ret_reason, strlen(*ret_reason), REASON_BYTES_MAX)] = '\0';
    return done;
}

static void
release_tracked(void *arg)
{
    struct tracked_memory *kept = arg;

    kept->account->memory_bytes -= kept->bytes;
}

struct tracked_memory *
sandbox_track(struct sandbox *sandbox, struct account *account, MemoryContext context, bool recurse)
{
    struct tracked_memory *kept = MemoryContextAllocZero(context, sizeof(*kept));

    kept->context = context;
    kept->sandbox = sandbox;
    kept->account = account;
    kept->recurse = recurse;
    kept->on_reset.func = release_tracked;
    kept->on_reset.arg = kept;
    MemoryContextRegisterResetCallback(context, &kept->on_reset);
    return kept;
}

bool
sandbox_recount(struct tracked_memory *kept)
{
    struct account *account = kept->account;
    int64 bytes = (int64)MemoryContextMemAllocated(kept->context, kept->recurse);

    if (bytes != kept->bytes)
        kept->sandbox->process_bytes = 0;
    account->memory_bytes += bytes - kept->bytes;
    kept->bytes = bytes;
    if (account->memory_bytes <= kept->sandbox->accounts->limits.memory_bytes)
        return true;
    kept->sandbox->over_budget_owner = account->owner;
    return false;
}

Oid
sandbox_over_budget_owner(struct sandbox *sandbox)
{
    Oid owner = sandbox->over_budget_owner;

    sandbox->over_budget_owner = InvalidOid;
    return owner;
}
