/*
 * account.h: the share of the decoding session that the rules of one table owner may use.
 *
 * An owner can multiply rules, columns, partitions, conditions and long values. Each of them costs
 * the session time, memory or bytes of output, which an account limits per owner. A change over a
 * limit is denied before the work, counted, and reported to clairon.status. Denial ends by itself:
 * time and bytes refill, and memory is returned with the rules that used it.
 */
#ifndef CLAIRON_ACCOUNT_H
#define CLAIRON_ACCOUNT_H

#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/timestamp.h"

/*
 * The last two have no account. ACCOUNT_TARGETS counts changes with too many targets for one
 * notification, ACCOUNT_ROWS changes that a rule cannot evaluate.
 */
enum account_kind {
    ACCOUNT_TIME,
    ACCOUNT_MEMORY,
    ACCOUNT_BYTES,
    ACCOUNT_TARGETS,
    ACCOUNT_ROWS,
    ACCOUNT_KINDS
};

/* The limits of each account; slot options of the same names. */
struct account_limits {
    int64 time_us;      /* owner_time: CPU time in reserve */
    int64 memory_bytes; /* owner_memory: of plans and conditions */
    int64 minute_bytes; /* owner_bytes: of notifications, per minute */
    int wal_factor;     /* owner_wal_factor: bytes of notifications per byte of WAL, in addition */
};

#define OWNER_TIME_DEFAULT_US (INT64CONST(500) * 1000)
#define OWNER_MEMORY_DEFAULT (INT64CONST(64) * 1024 * 1024)
#define OWNER_BYTES_DEFAULT (INT64CONST(64) * 1024 * 1024)
#define OWNER_WAL_FACTOR_DEFAULT 4

struct account {
    Oid owner;
    /*
     * A member of clairon_app: its bytes are not limited, and its time only for evaluations. As of
     * the last account_refresh.
     */
    bool is_trusted;
    int64 left_us;        /* below 0 after a rule that took longer than the rest */
    TimestampTz refilled; /* when `left_us` was refilled */
    int64 charged_us;     /* by account_charge_time, since account_earn or account_spend */
    int notifications;    /* of the change, since account_earn */
    int64 memory_bytes;   /* in use */
    int64 left_bytes;     /* below 0 after a notification that was larger than the rest */
    TimestampTz filled;   /* the commit time at which `left_bytes` was refilled */
    int64 reload_second;  /* of commit time */
    int reloads;          /* reloads for denied changes in that second */
    struct {
        uint64 count; /* changes denied, once for each rule */
        TimestampTz last;
    } denied[ACCOUNT_KINDS];
};

struct accounts {
    MemoryContext context;
    struct account_limits limits;
    HTAB *by_owner;
    TimestampTz looked;   /* when the CPU time of the process was read */
    int64 cpu_us;         /* the CPU time then */
    TimestampTz reported; /* when the report was written */
    bool is_unreported;   /* a denial is not in the report yet */
};

/* Allocated in the current memory context. */
extern struct accounts *accounts_new(const struct account_limits *limits);

/* Valid until the accounts' memory context is deleted. */
extern struct account *account_of(struct accounts *accounts, Oid owner);

/* True for a member of clairon_app; if that role does not exist, for a superuser. */
extern bool account_is_app_member(Oid role);

/* Reads again whether the owner is a member of clairon_app. */
extern void account_refresh(struct account *account);

/* Returns false when the owner has no time left. Refills the time first. */
extern bool account_has_time(struct accounts *accounts, struct account *account);
/* The same for preparing rules, for which trusted owners need no time. */
extern bool account_may_prepare(struct accounts *accounts, struct account *account);
/* Returns false when less than half of the owner's time is left. Refills the time first. */
extern bool account_has_half_time(struct accounts *accounts, struct account *account);
/* Charges the time. Time within charged work does not refill the account. */
extern void account_charge_time(struct account *account, int64 us);

/* CPU time of the process. A system call. */
extern int64 account_cpu_us(void);

/*
 * Measure the rules of a change. account_start_clock returns the current time, and account_earn
 * follows. account_spend charges the time since `start`, except what account_charge_time has
 * charged, and returns the current time, at which the next rule starts.
 *
 * A system call costs a third of a short row, so the CPU time is read at most every
 * ACCOUNT_LOOK_US of real time. Between two readings real time is charged, which is hardly longer.
 * After a longer time, during which the process may have waited, CPU time is charged.
 */
extern TimestampTz account_start_clock(struct accounts *accounts);
extern TimestampTz account_spend(struct accounts *accounts, struct account *account,
                                 TimestampTz start);

#define ACCOUNT_LOOK_US 200

/*
 * A change may take ten nanoseconds per byte in the WAL. That is two to three times what a row with
 * one rule takes, and less than the relay and the store need for it.
 */
#define ACCOUNT_WAL_BYTES_PER_US 100

/*
 * Refills time and bytes by the bytes of one change in the WAL, time by the real time up to `now`,
 * and bytes up to the commit time. The latter clock is that of the commits, so that catching up
 * after an outage denies no more than live decoding.
 */
extern void account_earn(struct accounts *accounts, struct account *account, TimestampTz now,
                         TimestampTz commit_time, Size wal_bytes);

static inline bool
account_has_bytes(const struct account *account)
{
    return account->left_bytes > 0 || account->is_trusted;
}

/* True when the time or the bytes for changes are used up. */
static inline bool
account_is_used_up(struct accounts *accounts, struct account *account, enum account_kind *ret_kind)
{
    if (unlikely(!account_has_bytes(account)))
        *ret_kind = ACCOUNT_BYTES;
    else if (unlikely(account->left_us <= 0 && !account->is_trusted &&
                      !account_has_time(accounts, account)))
        *ret_kind = ACCOUNT_TIME;
    else
        return false;
    return true;
}

/*
 * A short row with many rules has little WAL, but the store and the relay need as much time for
 * each of its notifications as for a row. They have no account of time, so the decoder charges it.
 * More notifications than a table has rules in ordinary use are charged all that they cost, so that
 * a reserve buys fewer of them.
 */
#define ACCOUNT_FREE_NOTIFICATIONS 4   /* of a change */
#define ACCOUNT_CHEAP_NOTIFICATIONS 64 /* of a change */
#define ACCOUNT_CHEAP_NOTIFICATION_US 3
#define ACCOUNT_NOTIFICATION_US 10

/* Charges a notification of the change, with its bytes. */
static inline void
account_charge_notification(struct account *account, int64 bytes)
{
    account->left_bytes -= bytes;
    if (++account->notifications > ACCOUNT_FREE_NOTIFICATIONS && !account->is_trusted)
        account->left_us -= account->notifications > ACCOUNT_CHEAP_NOTIFICATIONS
                                ? ACCOUNT_NOTIFICATION_US
                                : ACCOUNT_CHEAP_NOTIFICATION_US;
}

/* Counts a denied change. */
extern void account_count_denied(struct accounts *accounts, struct account *account,
                                 enum account_kind kind);

/*
 * The reports of a slot, relative to the data directory: a line for each owner and kind. The relay
 * reports the accounts of its store.
 */
#define ACCOUNT_REPORT_PATH PG_STAT_TMP_DIR "/clairon.%s"
#define ACCOUNT_STORE_REPORT_PATH ACCOUNT_REPORT_PATH ".%s"
#define ACCOUNT_REPORT_BYTES_MAX 8192         /* further owners are left out */
#define ACCOUNT_REPORT_LINE "%u %s %llu %lld" /* owner, kind, changes, time of the last one */

/* Accounts in the store, which follow the slot in the path of their report. */
#define ACCOUNT_STORE_KINDS 2
extern const char *const account_store_kinds[ACCOUNT_STORE_KINDS];

/* Removes the reports of an earlier slot of this name. */
extern void accounts_forget_report(const char *slot);

/*
 * Writes the denials of this session to a file that clairon.status reads, at most ten times a
 * second unless `now`.
 */
extern void accounts_report(struct accounts *accounts, const char *slot, bool now);

/* Replaces a report, so that readers see the old one or the new one. */
extern void account_write_report(const char *path, const char *text);

#endif
