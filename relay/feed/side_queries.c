/*
 * side_queries.c: queries over separate connections, for a feed that reads a standby, for the rules
 * of the console, and to report denials to the server of the slot.
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
                                   .same_server_as = feed->link.conn,
                                   .sql = sql,
                                   .on_rows = on_rows,
                                   .on_failure = on_failure,
                                   .ctx = feed};
}

/* ---- standby */

#define SNAPSHOT_EVERY_S 1.0
#define CHECK_EVERY_S 10.0
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

    if (!feed->primary.failure_logged)
        log_warn("feed", "could not request a snapshot of running transactions from the primary",
                 LOG_TEXT("slot", feed->config->feed.slot), LOG_TEXT("error", message));
    feed->primary.failure_logged = true;
}

void
feed_primary_start(struct feed *feed)
{
    feed->primary.failure_logged = false;
    feed->primary.query =
        (struct postgres_query){.loop = feed->loop,
                                .conninfo = feed->config->feed.primary_conninfo,
                                .sql = "SELECT pg_catalog.pg_log_standby_snapshot()",
                                .on_failure = on_snapshot_failure,
                                .ctx = feed};
    postgres_query_repeat(&feed->primary.query, 0.0, SNAPSHOT_EVERY_S);
}

/*
 * In the stream, a standby that receives no WAL cannot be distinguished from a standby of an idle
 * primary. So the feed runs checks of `clairon doctor` on the standby.
 */
static const char STANDBY_QUERY[] =
    "SELECT detail, hint FROM clairon.doctor_standby()"
    " WHERE NOT ok AND check_name IN ('WAL receiver', 'replay') AND pg_catalog.pg_is_in_recovery()";

static void
set_stalled(struct feed *feed, bool is_stalled)
{
    if (!is_stalled)
        feed->standby.failures = 0;
    stats_set(feed->stats, STAT_FEED_STALLED, is_stalled);
}

static void
on_standby_status(void *ctx, const PGresult *rows)
{
    struct feed *feed = ctx;

    if (feed->standby.query_failed)
        log_info("feed", "standby status query succeeded again");
    feed->standby.query_failed = false;
    if (PQntuples(rows) == 0) {
        if (feed->standby.failures >= STALLED_AFTER)
            log_info("feed", "WAL replay resumed on this standby");
        set_stalled(feed, false);
        return;
    }
    if (feed->standby.failures >= STALLED_AFTER || ++feed->standby.failures < STALLED_AFTER)
        return;
    log_warn("feed", "WAL replay stalled on this standby",
             LOG_TEXT("detail", PQgetvalue(rows, 0, 0)), LOG_TEXT("hint", PQgetvalue(rows, 0, 1)));
    set_stalled(feed, true);
}

/*
 * Logged once. Possible causes: the extension was dropped, or a grant was revoked. If the server
 * is down, the stream itself fails.
 */
static void
on_standby_failure(void *ctx, const char *message)
{
    struct feed *feed = ctx;
    const char *hint = postgres_error_hint(NULL, message);

    if (!feed->standby.query_failed)
        log_warn("feed", "could not query standby status", LOG_TEXT("error", message),
                 LOG_TEXT("hint", hint[0] != '\0' ? hint : NULL));
    feed->standby.query_failed = true;
}

void
feed_standby_start(struct feed *feed)
{
    feed->standby.query = new_query(feed, STANDBY_QUERY, on_standby_status, on_standby_failure);
    feed->standby.query_failed = false;
    postgres_query_repeat(&feed->standby.query, CHECK_EVERY_S, CHECK_EVERY_S);
}

void
feed_standby_end(struct feed *feed)
{
    if (!postgres_query_is_open(&feed->standby.query))
        return;
    postgres_query_end(&feed->standby.query);
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
                                  "only_when, ack_required, ttl::text AS ttl"
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
