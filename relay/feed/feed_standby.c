/* feed_standby.c: notices when nothing new reaches the standby that the feed reads. */
#include "base/log.h"
#include "feed/feed_parts.h"

#define ASK_EVERY_S 10.0
#define STALLED_AFTER 2 /* answers in a row: a WAL receiver may just be starting */

/*
 * A standby without WAL looks to its readers as one whose primary is idle: the stream stands, and
 * all seems well. So it is asked, by the words of the doctor.
 */
static const char QUERY[] =
    "SELECT detail, hint FROM clairon.doctor_standby()"
    " WHERE NOT ok AND check_name IN ('WAL receiver', 'replay') AND pg_catalog.pg_is_in_recovery()";

static void
set_stalled(struct feed *feed, bool is_stalled)
{
    if (!is_stalled)
        feed->standby.troubles = 0;
    stats_set(feed->stats, STAT_FEED_STALLED, is_stalled);
}

static void
on_rows(void *ctx, const PGresult *rows)
{
    struct feed *feed = ctx;

    if (feed->standby.is_mute)
        log_infof("feed", "this standby says again how it is");
    feed->standby.is_mute = false;
    if (PQntuples(rows) == 0) {
        if (feed->standby.troubles >= STALLED_AFTER)
            log_infof("feed", "WAL is replayed on this standby again");
        set_stalled(feed, false);
        return;
    }
    if (feed->standby.troubles >= STALLED_AFTER || ++feed->standby.troubles < STALLED_AFTER)
        return;
    log_warnf("feed", "nothing new reaches this standby: %s. %s", PQgetvalue(rows, 0, 0),
              PQgetvalue(rows, 0, 1));
    set_stalled(feed, true);
}

/*
 * Said once: the extension was dropped, and no rule is left that could send anything, or a grant
 * was taken. When the server is away, the stream tells.
 */
static void
on_failure(void *ctx, const char *message)
{
    struct feed *feed = ctx;
    const char *hint = feed_error_hint(NULL, message);

    if (!feed->standby.is_mute)
        log_warnf("feed", "could not ask this standby how it is: %s%s%s", message,
                  hint[0] != '\0' ? "; " : "", hint);
    feed->standby.is_mute = true;
}

static void
on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    feed_inquiry_ask(&feed->standby.inquiry);
}

void
feed_standby_begin(struct feed *feed)
{
    feed->standby.inquiry = (struct feed_inquiry){.loop = feed->loop,
                                                  .conninfo = feed->config->feed.conninfo,
                                                  .beside = feed->link.conn,
                                                  .query = QUERY,
                                                  .on_rows = on_rows,
                                                  .on_failure = on_failure,
                                                  .ctx = feed};
    feed->standby.is_mute = false;
    ev_timer_init(&feed->standby.time, on_time, ASK_EVERY_S, ASK_EVERY_S);
    feed->standby.time.data = feed;
    ev_timer_start(feed->loop, &feed->standby.time);
}

void
feed_standby_end(struct feed *feed)
{
    if (!ev_is_active(&feed->standby.time))
        return;
    ev_timer_stop(feed->loop, &feed->standby.time);
    feed_inquiry_end(&feed->standby.inquiry);
    set_stalled(feed, false);
}
