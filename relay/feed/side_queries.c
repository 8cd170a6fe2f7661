/*
 * side_queries.c: queries over separate connections: the status of the slot's server, a slot on a
 * standby, the rules of the console, and the report of denials to the server of the slot.
 */
#include "feed/feed_private.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

/* A query to the server of the slot, over a separate connection. */
static struct postgres_query
new_query(struct feed *feed, const char *sql, void (*on_rows)(void *ctx, const PGresult *rows),
          void (*on_failure)(void *ctx, const char *message))
{
    return (struct postgres_query){.loop = feed->loop,
                                   .conninfo = feed->config->feed.conninfo,
                                   .same_server_as = feed->connection.conn,
                                   .sql = sql,
                                   .on_rows = on_rows,
                                   .on_failure = on_failure,
                                   .ctx = feed};
}

/* ---- a slot on a standby */

#define SNAPSHOT_EVERY_S 1.0
#define CHECK_EVERY_S 10.0
#define WAL_AFTER_S 5.0 /* a feed that reconnects sooner makes no further connection */
#define STALLED_AFTER 2 /* failed checks; after the first, the WAL receiver may just be starting */

/*
 * A slot starts at a record of running transactions, which an idle primary does not write. While
 * transactions are running, the slot needs further records. So the request is repeated until the
 * slot exists. A failure is logged once: the slot may also be created without the request.
 */
static void
on_snapshot_failure(void *ctx, const char *message)
{
    struct feed *feed = ctx;

    if (!feed->snapshot_request.failure_logged)
        log_warn("feed", "could not request a snapshot of running transactions from the primary",
                 LOG_TEXT("slot", feed->config->feed.slot), LOG_TEXT("error", message));
    feed->snapshot_request.failure_logged = true;
}

void
feed_snapshot_request_start(struct feed *feed)
{
    feed->snapshot_request.failure_logged = false;
    feed->snapshot_request.query =
        (struct postgres_query){.loop = feed->loop,
                                .conninfo = feed->config->feed.primary_conninfo,
                                .sql = "SELECT pg_catalog.pg_log_standby_snapshot()",
                                .on_failure = on_snapshot_failure,
                                .ctx = feed};
    postgres_query_repeat(&feed->snapshot_request.query, 0.0, SNAPSHOT_EVERY_S);
}

/* ---- status of the server */

/*
 * In the stream, a standby that receives no WAL cannot be distinguished from a standby of an idle
 * primary. So the feed runs checks of `clairon doctor` on the standby.
 */
#define STANDBY_CHECKS                                                                             \
    "SELECT 'standby', detail, hint FROM clairon.doctor_standby()"                                 \
    " WHERE NOT ok AND check_name IN ('WAL receiver', 'replay')"                                   \
    " AND pg_catalog.pg_is_in_recovery() UNION ALL "

/*
 * A report from before the connection is of an earlier one. clairon.doctor_hanging() finds the
 * session by the end of this query.
 */
#define DENIALS                                                                                    \
    "SELECT 'denied', account, pg_catalog.sum(changes)::text"                                      \
    " FROM pg_catalog.pg_replication_slots"                                                        \
    " JOIN pg_catalog.pg_stat_activity ON pid = active_pid"                                        \
    " CROSS JOIN LATERAL clairon.denials(slot_name)"                                               \
    " WHERE slot_name = '%s' AND last_at >= backend_start GROUP BY account"

/* Does not need the extension. A slot without a limit has no safe_wal_size. */
#define WAL                                                                                        \
    "SELECT 'wal', greatest(pg_catalog.pg_wal_lsn_diff("                                           \
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()"            \
    " ELSE pg_catalog.pg_current_wal_lsn() END, restart_lsn)::bigint, 0)::text,"                   \
    " CASE WHEN safe_wal_size IS NOT NULL THEN greatest(safe_wal_size, 1)::text END"               \
    " FROM pg_catalog.pg_replication_slots WHERE slot_name = '%s'"

static const struct {
    const char *account;
    enum metric metric;
} denial_kinds[FEED_DENIAL_KINDS] = {
    {"rows", STAT_DENIED_ROWS},   {"targets", STAT_DENIED_TARGETS}, {"time", STAT_DENIED_TIME},
    {"bytes", STAT_DENIED_BYTES}, {"memory", STAT_DENIED_MEMORY},
};

void
feed_publish_availability(struct feed *feed)
{
    enum feed_availability availability = FEED_DOWN;

    if (feed->state == FEED_STREAMING)
        availability = feed->status.is_stalled ? FEED_STALLED : FEED_AVAILABLE;
    else if (feed->slot.holder == SLOT_HELD_BY_RELAY)
        availability = FEED_STANDBY;
    feed->report->availability = availability;
    if (availability == FEED_AVAILABLE || availability == FEED_STANDBY)
        feed->report->reason[0] = '\0';
}

void
feed_report_reason(struct feed *feed, const char *what, const char *error, const char *hint)
{
    snprintf(feed->report->reason, sizeof(feed->report->reason), "%s%s%s%s%s", what,
             error != NULL ? ": " : "", error != NULL ? error : "", hint != NULL ? ". " : "",
             hint != NULL ? hint : "");
}

static void
set_stalled(struct feed *feed, bool is_stalled)
{
    if (!is_stalled)
        feed->status.failures = 0;
    feed->status.is_stalled = is_stalled;
    stats_set(feed->stats, STAT_FEED_STALLED, is_stalled);
    feed_publish_availability(feed);
}

/* `detail` NULL: the checks passed. */
static void
on_standby_checks(struct feed *feed, const char *detail, const char *hint)
{
    if (detail == NULL) {
        if (feed->status.is_stalled)
            log_info("feed", "WAL replay resumed on this standby");
        set_stalled(feed, false);
        return;
    }
    if (feed->status.is_stalled || ++feed->status.failures < STALLED_AFTER)
        return;
    log_warn("feed", "WAL replay stalled on this standby", LOG_TEXT("detail", detail),
             LOG_TEXT("hint", hint));
    set_stalled(feed, true);
    feed_report_reason(feed, "WAL replay stalled on this standby", detail, hint);
}

static void
count_denials(struct feed *feed, const char *account, uint64_t changes)
{
    for (size_t i = 0; i < FEED_DENIAL_KINDS; i++) {
        uint64_t *counted = &feed->status.counted[i];

        if (strcmp(denial_kinds[i].account, account) != 0 || changes <= *counted)
            continue;
        stats_add(feed->stats, denial_kinds[i].metric, changes - *counted);
        log_warn("feed", "changes denied", LOG_TEXT("reason", account),
                 LOG_UINT("count", changes - *counted),
                 LOG_TEXT("hint", "clairon.status names the owner, and the server's log the rule"));
        *counted = changes;
    }
}

/* Null and a missing slot are 0. */
static void
publish_wal(struct feed *feed, const char *retained, const char *safe)
{
    stats_set(feed->stats, STAT_FEED_WAL_RETAINED, strtoull(retained, NULL, 10));
    stats_set(feed->stats, STAT_FEED_WAL_SAFE, strtoull(safe, NULL, 10));
}

static void
on_wal(void *ctx, const PGresult *rows)
{
    const bool has_slot = PQntuples(rows) == 1 && PQnfields(rows) == 3;

    publish_wal(ctx, has_slot ? PQgetvalue(rows, 0, 1) : "",
                has_slot ? PQgetvalue(rows, 0, 2) : "");
}

/* The feed logs why it cannot connect. The metrics keep their values: the WAL is still retained. */
static void
on_wal_failure(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

void
feed_wal_start(struct feed *feed)
{
    struct feed_wal *wal = &feed->wal;

    if (postgres_query_is_open(&wal->query))
        return;
    snprintf(wal->sql, sizeof(wal->sql), WAL, feed->config->feed.slot);
    wal->query = new_query(feed, wal->sql, on_wal, on_wal_failure);
    wal->query.same_server_as = NULL; /* the feed's connection may end before */
    postgres_query_repeat(&wal->query, WAL_AFTER_S, CHECK_EVERY_S);
}

void
feed_wal_end(struct feed *feed)
{
    postgres_query_end(&feed->wal.query);
}

static void
on_status(void *ctx, const PGresult *rows)
{
    struct feed *feed = ctx;
    const char *detail = NULL, *hint = NULL;

    if (feed->status.query_failed)
        log_info("feed", "server status query succeeded again");
    feed->status.query_failed = false;
    for (int i = PQntuples(rows) - 1; i >= 0 && PQnfields(rows) == 3; i--) {
        if (strcmp(PQgetvalue(rows, i, 0), "denied") == 0) {
            count_denials(feed, PQgetvalue(rows, i, 1), strtoull(PQgetvalue(rows, i, 2), NULL, 10));
        } else if (strcmp(PQgetvalue(rows, i, 0), "wal") == 0) {
            publish_wal(feed, PQgetvalue(rows, i, 1), PQgetvalue(rows, i, 2));
        } else {
            detail = PQgetvalue(rows, i, 1);
            hint = PQgetvalue(rows, i, 2);
        }
    }
    on_standby_checks(feed, detail, hint);
}

/*
 * Logged once. Possible causes: the extension was dropped, or a grant was revoked. If the server
 * is down, the stream itself fails.
 */
static void
on_status_failure(void *ctx, const char *message)
{
    struct feed *feed = ctx;
    const char *hint = postgres_error_hint(NULL, message);

    if (!feed->status.query_failed)
        log_warn("feed", "could not query the server's status", LOG_TEXT("error", message),
                 LOG_TEXT("hint", hint[0] != '\0' ? hint : NULL));
    feed->status.query_failed = true;
}

void
feed_status_start(struct feed *feed)
{
    struct feed_status *status = &feed->status;

    feed_wal_end(feed);
    snprintf(status->sql, sizeof(status->sql),
             feed->slot.in_recovery ? WAL " UNION ALL " STANDBY_CHECKS DENIALS
                                    : WAL " UNION ALL " DENIALS,
             feed->config->feed.slot, feed->config->feed.slot);
    memset(status->counted, 0, sizeof(status->counted));
    status->query = new_query(feed, status->sql, on_status, on_status_failure);
    status->query_failed = false;
    postgres_query_repeat(&status->query, CHECK_EVERY_S, CHECK_EVERY_S);
}

void
feed_status_end(struct feed *feed)
{
    if (!postgres_query_is_open(&feed->status.query))
        return;
    postgres_query_end(&feed->status.query);
    set_stalled(feed, false);
}

/* ---- rules */

#define RULES_CACHE_US 1000000 /* maximum age of cached rules */
#define TEXT_MAX (256 * 1024)

/* Called with NULL after a failure, so that a retry waits for RULES_CACHE_US. */
static void
keep(struct feed *feed, char *text)
{
    free(feed->rules.text);
    feed->rules.text = text;
    feed->rules.read_us = clock_wall_us();
}

/* Limited to what the console can display: 200 rules, and the start of long target lists. */
static const char RULES_QUERY[] = "SELECT coalesce(pg_catalog.json_agg(rule), '[]')"
                                  " FROM (SELECT relation::text AS relation, name, audience, "
                                  "pg_catalog.left(targets, 200) AS targets,"
                                  " operations, type, priority, pg_catalog.left(only_when, 500) AS "
                                  "only_when, ack_required, ttl::text AS ttl, live, retry_limit,"
                                  " ack_timeout::text AS ack_timeout, pg_catalog.left("
                                  "pg_catalog.array_to_string(columns, ', '), 200) AS columns"
                                  " FROM clairon.rules ORDER BY 1, 2 LIMIT 200) AS rule";

static void
on_rules(void *ctx, const PGresult *rows)
{
    struct feed *feed = ctx;

    if (PQntuples(rows) != 1 || PQnfields(rows) != 1 || PQgetlength(rows, 0, 0) > TEXT_MAX)
        return;
    keep(feed, memory_text(PQgetvalue(rows, 0, 0), strlen(PQgetvalue(rows, 0, 0))));
}

static void
on_rules_failure(void *ctx, const char *message)
{
    keep(ctx, NULL);
    log_warn("feed", "could not read the rules for the console", LOG_TEXT("error", message));
}

enum rc
feed_rules(struct feed *feed, struct buffer *out)
{
    bool is_fresh = clock_wall_us() - feed->rules.read_us < RULES_CACHE_US;

    if (feed->state != FEED_STREAMING)
        return RC_AGAIN;
    if (!is_fresh) {
        if (!postgres_query_is_open(&feed->rules.query))
            feed->rules.query = new_query(feed, RULES_QUERY, on_rules, on_rules_failure);
        postgres_query_send(&feed->rules.query);
    }
    return buffer_addf(out, "{\"at\":%" PRId64 ",\"rules\":%s}", feed->rules.read_us / 1000,
                       feed->rules.text != NULL && is_fresh ? feed->rules.text : "null");
}

/* ---- denials */

#define REPORT_EVERY_US 1000000
#define REPORT_AGAIN_US 60000000 /* after a failure */

static const struct {
    const char *name;
    const char *message;
    const char *hint;
} ACCOUNTS[STORE_ACCOUNTS] = {
    [STORE_ACCOUNT_PAIRS] = {"pairs",
                             "denied notifications: the rules of table owners use up owner_pairs",
                             "address fewer users, raise [feed] owner_pairs, or grant clairon_app "
                             "to the owners"},
    [STORE_ACCOUNT_ERRORS] = {"errors",
                              "trimmed the error log: dead letters of table owners fill it",
                              "redrive or drop entries with clairon errors"},
};

static void
on_names(void *ctx, const PGresult *rows)
{
    struct feed *feed = ctx;

    if (PQntuples(rows) != 1 || PQnfields(rows) != STORE_ACCOUNTS)
        return;
    for (int i = 0; i < STORE_ACCOUNTS; i++) {
        const uint64_t reported = feed->denials.accounts[i].reported;

        if (reported == feed->denials.accounts[i].logged)
            continue;
        feed->denials.accounts[i].logged = reported;
        log_warn("feed", ACCOUNTS[i].message, LOG_TEXT("owners", PQgetvalue(rows, 0, i)),
                 LOG_UINT(i == STORE_ACCOUNT_PAIRS ? "denied" : "trimmed", reported),
                 LOG_TEXT("hint", ACCOUNTS[i].hint));
    }
}

/* Repeats the report. */
static void
forget_report(struct feed *feed)
{
    for (int i = 0; i < STORE_ACCOUNTS; i++)
        feed->denials.accounts[i].reported = 0;
}

static void
on_report_failure(void *ctx, const char *message)
{
    struct feed *feed = ctx;

    forget_report(feed);
    feed->denials.next_us = clock_monotonic_us() + REPORT_AGAIN_US;
    log_warn("feed", "could not report denials", LOG_TEXT("error", message));
}

enum column { COLUMN_OWNER, COLUMN_COUNT, COLUMN_LAST };

static void
append_sql(char sql[FEED_DENIALS_SQL_MAX], const char *format, ...)
{
    const size_t len = strlen(sql);
    va_list args;

    va_start(args, format);
    vsnprintf(sql + len, FEED_DENIALS_SQL_MAX - len, format, args);
    va_end(args);
}

static void
append_sql_array(char sql[FEED_DENIALS_SQL_MAX], const struct store_denials *denials,
                 enum column column)
{
    append_sql(sql, ", '{");
    for (size_t i = 0; i < denials->count; i++) {
        const struct store_denial *denial = &denials->owners[i];
        const int64_t value = column == COLUMN_OWNER   ? (int64_t)denial->owner
                              : column == COLUMN_COUNT ? (int64_t)denial->items
                                                       : denial->last_us;

        append_sql(sql, "%s%" PRId64, i > 0 ? "," : "", value);
    }
    append_sql(sql, "}'");
}

/* The name of a slot consists of letters, digits and underscores. */
static void
write_report_sql(char sql[FEED_DENIALS_SQL_MAX], const struct feed *feed)
{
    snprintf(sql, FEED_DENIALS_SQL_MAX, "SELECT ");
    for (enum store_account i = 0; i < STORE_ACCOUNTS; i++) {
        append_sql(sql, "%sclairon.report_denials('%s', '%s'", i > 0 ? ", " : "",
                   feed->config->feed.slot, ACCOUNTS[i].name);
        for (enum column column = COLUMN_OWNER; column <= COLUMN_LAST; column++)
            append_sql_array(sql, store_denials(feed->store, i), column);
        append_sql(sql, ")");
    }
}

static bool
is_reported(const struct feed *feed)
{
    for (enum store_account i = 0; i < STORE_ACCOUNTS; i++)
        if (store_denials(feed->store, i)->total != feed->denials.accounts[i].reported)
            return false;
    return true;
}

void
feed_denials_report(struct feed *feed)
{
    struct feed_denials *report = &feed->denials;
    const int64_t now_us = clock_monotonic_us();

    if (is_reported(feed) || now_us < report->next_us || report->query.session.is_busy)
        return;
    if (!postgres_query_is_open(&report->query))
        report->query = new_query(feed, report->sql, on_names, on_report_failure);
    write_report_sql(report->sql, feed);
    for (enum store_account i = 0; i < STORE_ACCOUNTS; i++)
        report->accounts[i].reported = store_denials(feed->store, i)->total;
    report->next_us = now_us + REPORT_EVERY_US;
    postgres_query_send(&report->query);
}

void
feed_denials_end(struct feed *feed)
{
    const struct postgres_query *query = &feed->denials.query;

    if (postgres_query_is_open(query) && (!query->session.is_ready || query->session.is_busy))
        forget_report(feed); /* it may be lost */
    postgres_query_end(&feed->denials.query);
}
