/* feed_denials.c: reports notifications that the store has denied to the server of the slot. */
#include "feed/feed_denials.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "feed/feed_parts.h"
#include "store/denials.h"

#define REPORT_EVERY_US 1000000
#define REPORT_AGAIN_US 60000000 /* after a failure */

static void
on_names(void *ctx, const PGresult *rows)
{
    const struct feed *feed = ctx;

    if (PQntuples(rows) == 1 && PQnfields(rows) == 1)
        log_warn("feed", "denied notifications: the rules of table owners use up owner_pairs",
                 LOG_TEXT("owners", PQgetvalue(rows, 0, 0)),
                 LOG_UINT("denied", feed->denials.reported),
                 LOG_TEXT("hint", "address fewer users, raise [feed] owner_pairs, or grant "
                                  "clairon_app to the owners"));
}

static void
on_report_failure(void *ctx, const char *message)
{
    struct feed *feed = ctx;

    feed->denials.reported = 0; /* repeat the report */
    feed->denials.next_us = clock_monotonic_us() + REPORT_AGAIN_US;
    log_warn("feed", "could not report denied notifications", LOG_TEXT("error", message));
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
                              : column == COLUMN_COUNT ? (int64_t)denial->notifications
                                                       : denial->last_us;

        append_sql(sql, "%s%" PRId64, i > 0 ? "," : "", value);
    }
    append_sql(sql, "}'");
}

/* The name of a slot consists of letters, digits and underscores. */
static void
write_report_sql(char sql[FEED_DENIALS_SQL_MAX], const char *slot,
                 const struct store_denials *denials)
{
    sql[0] = '\0';
    append_sql(sql, "SELECT clairon.report_pairs('%s'", slot);
    for (enum column column = COLUMN_OWNER; column <= COLUMN_LAST; column++)
        append_sql_array(sql, denials, column);
    append_sql(sql, ")");
}

void
feed_denials_report(struct feed *feed)
{
    const struct store_denials *denials = store_denials(feed->store);
    struct feed_denials *report = &feed->denials;
    const int64_t now_us = clock_monotonic_us();

    if (denials->total == report->reported || now_us < report->next_us ||
        report->query.session.is_busy)
        return;
    if (!postgres_query_is_open(&report->query))
        report->query = (struct postgres_query){.loop = feed->loop,
                                                .conninfo = feed->config->feed.conninfo,
                                                .same_server_as = feed->link.conn,
                                                .sql = report->sql,
                                                .on_rows = on_names,
                                                .on_failure = on_report_failure,
                                                .ctx = feed};
    write_report_sql(report->sql, feed->config->feed.slot, denials);
    report->reported = denials->total;
    report->next_us = now_us + REPORT_EVERY_US;
    postgres_query_send(&report->query);
}

void
feed_denials_end(struct feed *feed)
{
    const struct postgres_query *query = &feed->denials.query;

    if (postgres_query_is_open(query) && (!query->session.is_ready || query->session.is_busy))
        feed->denials.reported = 0; /* the report may be lost */
    postgres_query_end(&feed->denials.query);
}
