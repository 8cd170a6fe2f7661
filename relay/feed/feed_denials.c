/* feed_denials.c: reports what the store has denied to table owners to the server of the slot. */
#include "feed/feed_denials.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "feed/feed_parts.h"
#include "store/store.h"

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
        report->query = (struct postgres_query){.loop = feed->loop,
                                                .conninfo = feed->config->feed.conninfo,
                                                .same_server_as = feed->link.conn,
                                                .sql = report->sql,
                                                .on_rows = on_names,
                                                .on_failure = on_report_failure,
                                                .ctx = feed};
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
