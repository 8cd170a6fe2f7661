/*
 * account.c: the time and bytes of one table owner, and the report about denials. sandbox.c counts
 * the memory, and plan_set.c limits it.
 */
#include "base/account.h"

#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "base/data.h"

/*
 * The time refills at 1/REFILL_SHARE of the real time between runs. Time within runs does not
 * refill the account: on a busy machine, long runs would refill the account as fast as they are
 * charged, and it would never be empty. A new connection starts with full accounts. An owner cannot
 * force a reconnect, since no error of an expression ends the session. Confirmed rows are not
 * evaluated again, so even short connections advance.
 */
#define REFILL_SHARE 10

#define REPORT_EVERY_US (100 * INT64CONST(1000))

/*
 * Accounts are allocated in the memory context of the session, not in the hash table. Accounts must
 * outlive each child context, whose reset callback returns tracked memory to the account.
 */
struct account_entry {
    Oid owner; /* hash key */
    struct account *account;
};

struct accounts *
accounts_new(const struct account_limits *limits)
{
    struct accounts *accounts = palloc0(sizeof(*accounts));

    accounts->context = CurrentMemoryContext;
    accounts->limits = *limits;
    accounts->by_owner =
        oid_table_new("clairon accounts", 16, sizeof(struct account_entry), CurrentMemoryContext);
    return accounts;
}

struct account *
account_of(struct accounts *accounts, Oid owner)
{
    struct account_entry *entry = hash_search(accounts->by_owner, &owner, HASH_FIND, NULL);
    struct account *account;

    if (entry != NULL)
        return entry->account;
    account = MemoryContextAllocZero(accounts->context, sizeof(*account));
    account->owner = owner;
    account->left_us = accounts->limits.time_us;
    account->refilled = GetCurrentTimestamp();
    account->left_bytes = accounts->limits.minute_bytes;
    entry = hash_search(accounts->by_owner, &owner, HASH_ENTER, NULL);
    entry->account = account;
    return account;
}

bool
account_is_app_member(Oid role)
{
    Oid app = get_role_oid("clairon_app", true);

    return OidIsValid(app) ? has_privs_of_role(role, app) : superuser_arg(role);
}

void
account_refresh(struct account *account)
{
    account->is_trusted = account_is_app_member(account->owner);
}

static void
add_time(struct accounts *accounts, struct account *account, TimestampTz now, int64 earned_us)
{
    int64 more_us = Max(now - account->refilled, 0) / REFILL_SHARE;

    account->left_us = Min(account->left_us + more_us + earned_us, accounts->limits.time_us);
    account->refilled += more_us * REFILL_SHARE;
}

bool
account_has_time(struct accounts *accounts, struct account *account)
{
    add_time(accounts, account, GetCurrentTimestamp(), 0);
    return account->left_us > 0;
}

bool
account_may_prepare(struct accounts *accounts, struct account *account)
{
    return account->is_trusted || account_has_time(accounts, account);
}

bool
account_has_half_time(struct accounts *accounts, struct account *account)
{
    return account_has_time(accounts, account) && account->left_us > accounts->limits.time_us / 2;
}

void
account_charge_time(struct account *account, int64 us)
{
    account->left_us -= Max(us, 0);
    account->refilled = GetCurrentTimestamp();
    account->charged_us += Max(us, 0);
}

int64
account_cpu_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * INT64CONST(1000000) + now.tv_nsec / 1000;
}

static void
look(struct accounts *accounts, TimestampTz now)
{
    accounts->looked = now;
    accounts->cpu_us = account_cpu_us();
}

TimestampTz
account_start_clock(struct accounts *accounts)
{
    TimestampTz now = GetCurrentTimestamp();

    if (now - accounts->looked >= ACCOUNT_LOOK_US)
        look(accounts, now);
    return now;
}

TimestampTz
account_spend(struct accounts *accounts, struct account *account, TimestampTz start)
{
    TimestampTz now = GetCurrentTimestamp();
    int64 us = now - start;

    if (now - accounts->looked >= ACCOUNT_LOOK_US) {
        int64 before_us = accounts->cpu_us;

        look(accounts, now);
        us = Min(us, accounts->cpu_us - before_us);
    }
    if (!account->is_trusted)
        account->left_us -= Max(us - account->charged_us, 0);
    account->refilled = Min(account->refilled + (now - start), now);
    account->charged_us = 0;
    return now;
}

void
account_earn(struct accounts *accounts, struct account *account, TimestampTz now,
             TimestampTz commit_time, Size wal_bytes)
{
    const struct account_limits *limits = &accounts->limits;
    int64 more = (int64)wal_bytes * limits->wal_factor;

    if (commit_time > account->filled) {
        int64 passed_us = Min(commit_time - account->filled, USECS_PER_MINUTE);

        more += passed_us * (limits->minute_bytes / SECS_PER_MINUTE) / USECS_PER_SEC;
        account->filled = commit_time;
    }
    account->left_bytes = Min(account->left_bytes + more, limits->minute_bytes);
    account->charged_us = 0;
    account->notifications = 0;
    add_time(accounts, account, now, wal_bytes / ACCOUNT_WAL_BYTES_PER_US);
}

void
account_count_denied(struct accounts *accounts, struct account *account, enum account_kind kind)
{
    account->denied[kind].count++;
    account->denied[kind].last = GetCurrentTimestamp();
    accounts->is_unreported = true;
}

static const char *const kind_names[] = {[ACCOUNT_TIME] = "time",
                                         [ACCOUNT_MEMORY] = "memory",
                                         [ACCOUNT_BYTES] = "bytes",
                                         [ACCOUNT_TARGETS] = "targets",
                                         [ACCOUNT_ROWS] = "rows"};

const char *const account_store_kinds[ACCOUNT_STORE_KINDS] = {"pairs", "errors"};

static void
put_report(struct accounts *accounts, StringInfo out)
{
    HASH_SEQ_STATUS sequence;
    struct account_entry *entry;

    hash_seq_init(&sequence, accounts->by_owner);
    while ((entry = hash_seq_search(&sequence)) != NULL)
        for (int kind = 0; kind < ACCOUNT_KINDS; kind++) {
            int before = out->len;

            if (entry->account->denied[kind].count == 0)
                continue;
            appendStringInfo(out, ACCOUNT_REPORT_LINE "\n", entry->owner, kind_names[kind],
                             (unsigned long long)entry->account->denied[kind].count,
                             (long long)entry->account->denied[kind].last);
            if (out->len > ACCOUNT_REPORT_BYTES_MAX) {
                out->len = before;
                out->data[before] = '\0';
            }
        }
}

void
accounts_forget_report(const char *slot)
{
    char path[MAXPGPATH];

    snprintf(path, sizeof(path), ACCOUNT_REPORT_PATH, slot);
    (void)unlink(path);
    for (int i = 0; i < ACCOUNT_STORE_KINDS; i++) {
        snprintf(path, sizeof(path), ACCOUNT_STORE_REPORT_PATH, slot, account_store_kinds[i]);
        (void)unlink(path);
    }
}

/* A report that cannot be written is not worth an error: the logs have the denials too. */
void
account_write_report(const char *path, const char *text)
{
    char temporary[MAXPGPATH + 8];
    FILE *file;

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    file = AllocateFile(temporary, "w");
    if (file == NULL)
        return;
    fputs(text, file);
    if (FreeFile(file) != 0 || rename(temporary, path) != 0)
        (void)unlink(temporary);
}

void
accounts_report(struct accounts *accounts, const char *slot, bool now)
{
    char path[MAXPGPATH];
    StringInfoData text;
    TimestampTz time;

    if (!accounts->is_unreported)
        return;
    time = GetCurrentTimestamp();
    if (!now && time - accounts->reported < REPORT_EVERY_US)
        return;
    accounts->reported = time;
    accounts->is_unreported = false;
    initStringInfo(&text);
    put_report(accounts, &text);
    snprintf(path, sizeof(path), ACCOUNT_REPORT_PATH, slot);
    account_write_report(path, text.data);
    pfree(text.data);
}
