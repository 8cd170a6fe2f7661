/* sandbox.c: run expressions of table owners with limits on time and memory. */
#include "condition/sandbox.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"

/* The limit of real time, as a multiple of the timeout. */
#define ELAPSED_TIMEOUTS 10

/* Timer ticks per timeout. */
#define TICKS_PER_TIMEOUT 4

/* The maximum length of an error message, which may contain a value of the row. */
#define REASON_BYTES_MAX 500

/* Number of runs after which the size of the process is read again. */
#define RUNS_PER_MEMORY_CHECK 1024

/*
 * The time account of an owner. Some calls cannot be interrupted, and each row may take slightly
 * less than the timeout. So the owner is charged the time of a run above UNCHARGED_US. The account
 * starts with CREDIT_TIMEOUTS timeouts and refills at 1/REFILL_SHARE of the real time between runs.
 * Time within runs does not refill the account: on a busy machine, long runs would refill the
 * account as fast as they are charged, and it would never be empty. So no owner can stop decoding
 * for other owners. A new connection starts with full accounts. An owner cannot force a reconnect,
 * since no error of an expression ends the session. Confirmed rows are not evaluated again, so even
 * short connections advance. Starting with empty accounts would be worse: a condition that cannot
 * be prepared for lack of time denies all rows until the relation changes.
 */
#define UNCHARGED_US 1000
#define REFILL_SHARE 10
#define CREDIT_TIMEOUTS 50

struct account {
    Oid owner;
    int64 left_us;
    TimestampTz refilled;
    int64 kept_bytes;
};

/*
 * Accounts are allocated in the memory context of the sandbox, not in the hash table. Accounts must
 * outlive each child context, whose reset callback returns tracked memory to the account.
 */
struct account_entry {
    Oid owner; /* hash key */
    struct account *account;
};

struct tracked_memory {
    MemoryContextCallback on_reset;
    MemoryContext context;
    struct sandbox *sandbox;
    struct account *account;
    int64 bytes; /* size at the last count */
};

struct sandbox {
    MemoryContext context; /* allocations of the sandbox itself */
    int timeout_ms;
    HTAB *accounts;
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
    int64 ticks;       /* timer ticks; most runs end before the first tick */
    int64 cpu_tick_us; /* CPU time at the first tick */
    bool out_of_memory;
};

static struct run *volatile current;
static volatile sig_atomic_t expired;
static TimeoutId timer = MAX_TIMEOUTS;

static int64
cpu_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * INT64CONST(1000000) + now.tv_nsec / 1000;
}

static int64
tick_us(const struct run *run)
{
    return run->sandbox->timeout_ms * INT64CONST(1000) / TICKS_PER_TIMEOUT;
}

/* Reading the CPU clock is a system call, so short runs are measured in real time. */
static int64
used_us(const struct run *run)
{
    if (run->ticks == 0)
        return GetCurrentTimestamp() - run->start;
    return tick_us(run) + cpu_us() - run->cpu_tick_us;
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
    if (++run->ticks == 1)
        run->cpu_tick_us = cpu_us();
    limit_us = tick_us(run) * TICKS_PER_TIMEOUT;
    /* The clocks and the timer differ by microseconds. */
    if (used_us(run) < limit_us - tick_us(run) / 4 &&
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
sandbox_new(int timeout_ms)
{
    HASHCTL control = {.keysize = sizeof(Oid),
                       .entrysize = sizeof(struct account_entry),
                       .hcxt = CurrentMemoryContext};
    struct sandbox *sandbox = palloc0(sizeof(*sandbox));

    sandbox->context = CurrentMemoryContext;
    sandbox->timeout_ms = timeout_ms;
#ifdef __linux__
    if (getrlimit(RLIMIT_DATA, &usual_limit) != 0)
        elog(ERROR, "could not read the memory limit: %m");
#endif
    sandbox->accounts =
        hash_create("clairon accounts", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
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
    run->ticks = 0;
    run->start = GetCurrentTimestamp();
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
    int category = ERRCODE_TO_CATEGORY(code);

    if (code == ERRCODE_QUERY_CANCELED || code == ERRCODE_OUT_OF_MEMORY ||
        code == ERRCODE_T_R_SERIALIZATION_FAILURE)
        return false;
    return category == ERRCODE_INSUFFICIENT_RESOURCES ||
           category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_TRANSACTION_ROLLBACK ||
           code == ERRCODE_IO_ERROR;
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

static int64
max_credit_us(const struct sandbox *sandbox)
{
    return sandbox->timeout_ms * INT64CONST(1000) * CREDIT_TIMEOUTS;
}

static struct account *
account_of(struct sandbox *sandbox, Oid owner)
{
    struct account_entry *entry = hash_search(sandbox->accounts, &owner, HASH_FIND, NULL);
    struct account *account;

    if (entry != NULL)
        return entry->account;
    account = MemoryContextAllocZero(sandbox->context, sizeof(*account));
    account->owner = owner;
    account->left_us = max_credit_us(sandbox);
    account->refilled = GetCurrentTimestamp();
    entry = hash_search(sandbox->accounts, &owner, HASH_ENTER, NULL);
    entry->account = account;
    return account;
}

static void
refill(struct sandbox *sandbox, struct account *account)
{
    TimestampTz now = GetCurrentTimestamp();
    int64 more_us = Max(now - account->refilled, 0) / REFILL_SHARE;

    account->left_us = Min(account->left_us + more_us, max_credit_us(sandbox));
    account->refilled = now;
}

/* Real time is charged too, at 1/ELAPSED_TIMEOUTS. */
static void
charge_account(struct account *account, const struct run *run)
{
    TimestampTz now = GetCurrentTimestamp();
    int64 real_us = now - run->start;

    account->left_us -= Max(Max(used_us(run), real_us / ELAPSED_TIMEOUTS) - UNCHARGED_US, 0);
    account->refilled = now;
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
sandbox_run(struct sandbox *sandbox, Oid user, void (*work)(void *arg), void *arg,
            char **ret_reason)
{
    struct run run = {.sandbox = sandbox, .user = user, .work = work, .arg = arg};
    struct account *account = account_of(sandbox, user);
    bool done;

    refill(sandbox, account);
    if (account->left_us <= 0) {
        *ret_reason = pstrdup("evaluation time limit of the table's owner is reached");
        return false;
    }
    done = guard_run(run_limited, &run, ret_reason);
    if (!done && run.out_of_memory && has_grown(sandbox))
        done = guard_run(run_limited, &run, ret_reason);
    charge_account(account, &run);
    if (!done)
        (*ret_reason)[pg_mbcliplen(*ret_reason, strlen(*ret_reason), REASON_BYTES_MAX)] = '\0';
    return done;
}

static void
release_tracked(void *arg)
{
    struct tracked_memory *kept = arg;

    kept->account->kept_bytes -= kept->bytes;
}

struct tracked_memory *
sandbox_track(struct sandbox *sandbox, Oid owner, MemoryContext context)
{
    struct tracked_memory *kept = MemoryContextAllocZero(context, sizeof(*kept));

    kept->context = context;
    kept->sandbox = sandbox;
    kept->account = account_of(sandbox, owner);
    kept->on_reset.func = release_tracked;
    kept->on_reset.arg = kept;
    MemoryContextRegisterResetCallback(context, &kept->on_reset);
    return kept;
}

bool
sandbox_recount(struct tracked_memory *kept)
{
    struct account *account = kept->account;
    int64 bytes = (int64)MemoryContextMemAllocated(kept->context, true);

    if (bytes != kept->bytes)
        kept->sandbox->process_bytes = 0;
    account->kept_bytes += bytes - kept->bytes;
    kept->bytes = bytes;
    if (account->kept_bytes <= SANDBOX_KEPT_MEMORY)
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
