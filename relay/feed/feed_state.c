/* feed_state.c: returns a feed from any state to WAITING, and retries. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "feed/feed_errors.h"
#include "feed/feed_parts.h"

#define FEED_STANDBY_RETRY_S 0.5
#define REASON_MAX 2048

void
feed_set_state(struct feed *feed, enum feed_state state)
{
    feed->state = state;
}

void
feed_drop_connection(struct feed *feed)
{
    ev_io_stop(feed->loop, &feed->link.readable);
    ev_io_stop(feed->loop, &feed->link.writable);
    ev_timer_stop(feed->loop, &feed->link.patience);
    feed->link.patience.repeat = FEED_CONNECT_PATIENCE_S;
    feed_primary_end(feed);
    feed_standby_end(feed);
    feed_rules_end(feed);
    feed_hosts_end(&feed->link.hosts);
    PQclear(feed->link.result);
    feed->link.result = NULL;
    PQfinish(feed->link.conn);
    feed->link.conn = NULL;
    feed->link.attempt++; /* answers that still come belong to the past */
    feed_batch_reset(&feed->batch, feed->store);
    feed_flights_reset(&feed->flights);
    feed_confirm_reset(feed); /* the next store may hold less than this one did */
    stats_set(feed->stats, STAT_FEED_CONNECTED, 0);
    stats_set(feed->stats, STAT_FEED_LAG, 0);
    stats_set(feed->stats, STAT_FEED_UNCONFIRMED, 0);
}

void
feed_restart(struct feed *feed, const char *format, ...)
{
    char reason[REASON_MAX];
    va_list args;
    double delay_s = FEED_STANDBY_RETRY_S;

    if (feed->state == FEED_WAITING || feed->closing)
        return;
    va_start(args, format);
    /* Before the connection, and its error, goes. */
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    if (!feed->slot.is_standby || (feed->state != FEED_STARTING && feed->state != FEED_FINDING)) {
        feed->slot.is_standby = false;
        delay_s = (double)backoff_next_ms(&feed->link.backoff) / 1000.0;
        stats_add(feed->stats, STAT_FEED_RECONNECTS, 1);
        log_warnf("feed", "%s; trying again in %.1f s", reason, delay_s);
    }
    feed_set_state(feed, FEED_WAITING);
    feed_drop_connection(feed);
    ev_timer_stop(feed->loop, &feed->link.retry);
    ev_timer_set(&feed->link.retry, delay_s, 0.0);
    ev_timer_start(feed->loop, &feed->link.retry);
}

void
feed_fail(struct feed *feed, const char *what, const char *message, const char *hint)
{
    feed_restart(feed, "%s: %s%s%s", what, feed_error_line(message), hint[0] != '\0' ? "; " : "",
                 hint);
}

void
feed_flush_socket(struct feed *feed)
{
    int left = PQflush(feed->link.conn);

    if (left < 0) {
        feed_restart(feed, "lost PostgreSQL: %s", feed_error_line(PQerrorMessage(feed->link.conn)));
        return;
    }
    if (left > 0)
        ev_io_start(feed->loop, &feed->link.writable);
    else
        ev_io_stop(feed->loop, &feed->link.writable);
    if (feed->state != FEED_STREAMING)
        ev_io_start(feed->loop, &feed->link.readable);
}
