/* feed_primary.c: asks the primary to log what a new slot on its standby waits for. */
#include "base/log.h"
#include "feed/feed_parts.h"

#define ASK_EVERY_S 1.0

/*
 * A slot begins at a record of the running transactions, which an idle primary does not write by
 * itself. One made while transactions run needs more than one, so it is asked for until the slot is
 * there. What goes wrong is said once, and tried again: the slot may come about without.
 */
static void
on_failure(void *ctx, const char *message)
{
    struct feed *feed = ctx;

    if (!feed->primary.complained)
        log_warnf("feed", "the primary does not log what slot \"%s\" waits for: %s",
                  feed->config->feed.slot, message);
    feed->primary.complained = true;
}

static void
on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    feed_inquiry_ask(&feed->primary.inquiry);
}

void
feed_primary_begin(struct feed *feed)
{
    feed->primary.complained = false;
    feed->primary.inquiry =
        (struct feed_inquiry){.loop = feed->loop,
                              .conninfo = feed->config->feed.primary_conninfo,
                              .query = "SELECT pg_catalog.pg_log_standby_snapshot()",
                              .on_failure = on_failure,
                              .ctx = feed};
    ev_timer_init(&feed->primary.time, on_time, 0.0, ASK_EVERY_S);
    feed->primary.time.data = feed;
    ev_timer_start(feed->loop, &feed->primary.time);
}

void
feed_primary_end(struct feed *feed)
{
    if (!ev_is_active(&feed->primary.time))
        return;
    ev_timer_stop(feed->loop, &feed->primary.time);
    feed_inquiry_end(&feed->primary.inquiry);
}
