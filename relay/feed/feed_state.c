/* feed_state.c: changes the state, and restarts the feed after a failure. */
#include "feed/feed_state.h"

#include "base/log.h"
#include "base/states.h"
#include "feed/feed_parts.h"
#include "postgres/libpq.h"

#define FEED_STANDBY_RETRY_S 0.5
#define RESTART_FIELDS_MAX 6

/* The transitions of feed_state.h. */
static const struct states states = {
    "feed",
    {
        [FEED_WAITING] = "waiting",
        [FEED_CONNECTING] = "connecting",
        [FEED_SETTING] = "setting",
        [FEED_IDENTIFYING] = "identifying",
        [FEED_FINDING] = "finding",
        [FEED_DROPPING] = "dropping",
        [FEED_CREATING] = "creating",
        [FEED_ACQUIRING] = "acquiring",
        [FEED_READING_HISTORY] = "reading history",
        [FEED_RESETTING] = "resetting",
        [FEED_COPYING] = "copying",
        [FEED_STARTING] = "starting",
        [FEED_REACQUIRING] = "reacquiring",
        [FEED_STREAMING] = "streaming",
    },
    {
        [FEED_WAITING] = ~0u,
        [FEED_CONNECTING] = 1u << FEED_WAITING,
        [FEED_SETTING] = 1u << FEED_CONNECTING,
        [FEED_IDENTIFYING] = 1u << FEED_SETTING | 1u << FEED_ACQUIRING,
        [FEED_FINDING] = 1u << FEED_IDENTIFYING,
        [FEED_DROPPING] = 1u << FEED_FINDING,
        [FEED_CREATING] = 1u << FEED_ACQUIRING,
        [FEED_ACQUIRING] = 1u << FEED_FINDING | 1u << FEED_DROPPING | 1u << FEED_CREATING,
        [FEED_READING_HISTORY] = 1u << FEED_ACQUIRING,
        [FEED_RESETTING] = 1u << FEED_ACQUIRING | 1u << FEED_READING_HISTORY,
        [FEED_COPYING] = 1u << FEED_ACQUIRING,
        [FEED_STARTING] = 1u << FEED_ACQUIRING | 1u << FEED_COPYING,
        [FEED_REACQUIRING] = 1u << FEED_STARTING,
        [FEED_STREAMING] = 1u << FEED_REACQUIRING,
    },
};

void
feed_set_state(struct feed *feed, enum feed_state state)
{
    if (!states_allow(&states, feed->state, state, feed->stats)) {
        feed_restart(feed, "internal error");
        return;
    }
    feed->state = state;
    feed->report->availability = state == FEED_STREAMING ? FEED_AVAILABLE
                                 : feed->slot.is_standby ? FEED_STANDBY
                                                         : FEED_DOWN;
}

void
feed_drop_connection(struct feed *feed)
{
    ev_io_stop(feed->loop, &feed->link.readable);
    ev_io_stop(feed->loop, &feed->link.writable);
    ev_timer_stop(feed->loop, &feed->link.timeout);
    feed->link.timeout.repeat = FEED_CONNECT_TIMEOUT_S;
    postgres_query_end(&feed->primary.query);
    feed_standby_end(feed);
    postgres_query_end(&feed->rules.query);
    feed_denials_end(feed);
    postgres_connect_end(&feed->link.connect);
    PQclear(feed->link.result);
    feed->link.result = NULL;
    PQfinish(feed->link.conn);
    feed->link.conn = NULL;
    feed->link.attempt++; /* invalidates pending replies */
    feed_batch_reset(&feed->batch, feed->store);
    feed_flights_reset(&feed->flights);
    feed_confirm_reset(feed); /* after a restart, the store may have less data */
    stats_set(feed->stats, STAT_FEED_CONNECTED, 0);
    stats_set(feed->stats, STAT_FEED_LAG, 0);
    stats_set(feed->stats, STAT_FEED_UNCONFIRMED, 0);
}

/* Logs before the connection is freed, because the fields may point into it. */
static void
log_retry(const char *reason, const struct log_field *fields, double delay_s)
{
    struct log_field all[RESTART_FIELDS_MAX + 2];
    size_t count = 0;

    for (; fields->type != LOG_FIELD_END && count < RESTART_FIELDS_MAX; fields++)
        all[count++] = *fields;
    all[count++] = LOG_SECONDS("retry_s", delay_s);
    all[count] = LOG_END;
    log_write(LOG_LEVEL_WARN, "feed", reason, all);
}

void
feed_restart_with(struct feed *feed, const char *reason, const struct log_field *fields)
{
    double delay_s = FEED_STANDBY_RETRY_S;

    if (feed->state == FEED_WAITING || feed->closing)
        return;
    if (!feed->slot.is_standby || (feed->state != FEED_STARTING && feed->state != FEED_FINDING)) {
        feed->slot.is_standby = false;
        delay_s = (double)backoff_next_ms(&feed->link.backoff) / 1000.0;
        stats_add(feed->stats, STAT_FEED_RECONNECTS, 1);
        log_retry(reason, fields, delay_s);
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
    feed_restart(feed, what, LOG_TEXT("error", postgres_error_line(message)),
                 LOG_TEXT("hint", hint[0] != '\0' ? hint : NULL));
}

void
feed_flush_socket(struct feed *feed)
{
    int left = PQflush(feed->link.conn);

    if (left < 0) {
        feed_restart(feed, "PostgreSQL connection lost",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->link.conn))));
        return;
    }
    if (left > 0)
        ev_io_start(feed->loop, &feed->link.writable);
    else
        ev_io_stop(feed->loop, &feed->link.writable);
    if (feed->state != FEED_STREAMING)
        ev_io_start(feed->loop, &feed->link.readable);
}
