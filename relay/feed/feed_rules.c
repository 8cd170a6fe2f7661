/* feed_rules.c: reads the rules for the console, over a separate connection. */
#include "feed/feed_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "feed/feed_parts.h"

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

static void
query_rules(struct feed *feed)
{
    if (!postgres_query_is_open(&feed->rules.query))
        feed->rules.query = (struct postgres_query){.loop = feed->loop,
                                                    .conninfo = feed->config->feed.conninfo,
                                                    .same_server_as = feed->link.conn,
                                                    .sql = RULES_QUERY,
                                                    .on_rows = on_rules,
                                                    .on_failure = on_rules_failure,
                                                    .ctx = feed};
    postgres_query_send(&feed->rules.query);
}

enum rc
feed_rules(struct feed *feed, struct buffer *out)
{
    bool is_fresh = clock_wall_us() - feed->rules.read_us < RULES_CACHE_US;

    if (feed->state != FEED_STREAMING)
        return RC_AGAIN;
    if (!is_fresh)
        query_rules(feed);
    return buffer_addf(out, "{\"at\":%" PRId64 ",\"rules\":%s}", feed->rules.read_us / 1000,
                       feed->rules.text != NULL && is_fresh ? feed->rules.text : "null");
}
