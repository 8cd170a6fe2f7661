/*
 * feed_standby.c: queries of a feed that reads a standby: they help to create its slot, and detect
 * missing WAL.
 */
#include "feed/feed_standby.h"

#include "base/log.h"
#include "feed/feed_parts.h"

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
    feed->standby.query = (struct postgres_query){.loop = feed->loop,
                                                  .conninfo = feed->config->feed.conninfo,
                                                  .same_server_as = feed->link.conn,
                                                  .sql = STANDBY_QUERY,
                                                  .on_rows = on_standby_status,
                                                  .on_failure = on_standby_failure,
                                                  .ctx = feed};
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
