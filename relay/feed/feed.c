/* feed.c: opens and closes the feed, and handles its socket and timers. */
#include "feed/feed_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "feed/feed_connect.h"
#include "feed/feed_stream.h"

#define FEED_BACKOFF_BASE_MS 100
#define FEED_BACKOFF_CAP_MS 5000
#define FEED_FEEDBACK_S 0.5
#define STATUS_EVERY_US 10000000 /* used if the server has no wal_sender_timeout */

const char *
feed_availability_name(enum feed_availability availability)
{
    static const char *const names[] = {
        [FEED_OFF] = "off",
        [FEED_DOWN] = "down",
        [FEED_STANDBY] = "standby",
        [FEED_AVAILABLE] = "streaming",
    };

    return names[availability];
}

static void
on_link_socket(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct feed *feed = watcher->data;

    (void)loop;
    if ((events & EV_WRITE) != 0)
        feed_flush_socket(feed);
    if ((events & EV_READ) == 0 || feed->state == FEED_WAITING)
        return;
    if (feed->state != FEED_STREAMING) {
        feed_on_result(feed);
    } else if (PQconsumeInput(feed->link.conn) == 0) {
        feed_restart(feed, "PostgreSQL connection lost",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->link.conn))));
    } else {
        feed_stream_pump(feed);
    }
}

static void
on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    if (feed->state == FEED_WAITING && store_is_up(feed->store))
        feed_connect(feed);
}

static void
on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    if (feed->state == FEED_CREATING)
        feed_restart(feed, "could not create the replication slot within [feed] create_timeout",
                     LOG_TEXT("slot", feed->config->feed.slot),
                     LOG_SECONDS("timeout_s", timer->repeat),
                     LOG_TEXT("hint", "run SELECT pg_log_standby_snapshot() on the primary, and "
                                      "end its long-running transactions"));
    else if (postgres_connect_is_resolving(&feed->link.connect))
        feed_restart(feed, "could not resolve the hosts of [feed] conninfo in time",
                     LOG_SECONDS("timeout_s", timer->repeat));
    else
        feed_restart(feed, "PostgreSQL did not respond in time",
                     LOG_SECONDS("timeout_s", timer->repeat));
}

/*
 * Detects a server that became unreachable without closing the connection: it sends nothing for
 * wal_sender_timeout. A reachable server requests a reply halfway through that timeout. The feed
 * must not request replies (decoder/FRAMES.md), so it sends its own status messages late enough for
 * the server to request one. Returns false if the feed was restarted.
 */
static bool
server_is_alive(struct feed *feed)
{
    int64_t now_us = clock_monotonic_us();

    if (!feed_flights_have_room(&feed->flights))
        feed->feedback.received_us = now_us; /* backpressure: the feed is not reading */
    if (feed->feedback.timeout_us == 0 ||
        now_us - feed->feedback.received_us <= feed->feedback.timeout_us)
        return true;
    feed_restart(feed, "no message from PostgreSQL within wal_sender_timeout",
                 LOG_SECONDS("timeout_s", (double)feed->feedback.timeout_us / 1e6));
    return false;
}

/* True after 60 % of wal_sender_timeout: after the server's request, well before the timeout. */
static bool
status_is_due(const struct feed *feed)
{
    int64_t every_us =
        feed->feedback.timeout_us > 0 ? feed->feedback.timeout_us / 10 * 6 : STATUS_EVERY_US;

    return clock_monotonic_us() - feed->feedback.sent_us > every_us;
}

/* A separate timer, because status messages are due even if no message arrives. */
static void
on_feedback(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    if (feed->state != FEED_STREAMING)
        return;
    feed_update_lag(feed);
    feed_denials_report(feed);
    if (!server_is_alive(feed))
        return;
    feed_stream_idle(feed);
    if (feed->state != FEED_STREAMING)
        return;
    feed_confirm_replicas(feed);
    feed_confirm_update(feed);
    if (feed->confirm.confirmed_lsn != feed->feedback.reported_lsn)
        feed->feedback.received_us =
            clock_monotonic_us(); /* the status message postpones the server's reply request */
    if (status_is_due(feed) || feed->confirm.confirmed_lsn != feed->feedback.reported_lsn)
        feed_send_feedback(feed);
}

static void
on_store_up(void *ctx)
{
    struct feed *feed = ctx;

    /* A draining relay leaves the slot to another relay. */
    if (!feed->closing && feed->state == FEED_WAITING && !ev_is_active(&feed->link.retry))
        feed_connect(feed);
}

static void
on_store_down(void *ctx)
{
    struct feed *feed = ctx;

    feed_restart(feed, "store connection lost");
}

struct feed *
feed_open(struct ev_loop *loop, const struct config *config, struct store *store,
          struct stats *stats, struct feed_report *report, feed_rejected *rejected, void *ctx)
{
    struct feed *feed = memory_new(sizeof(*feed));

    feed->loop = loop;
    feed->config = config;
    feed->store = store;
    feed->stats = stats;
    feed->report = report;
    feed->rejected = rejected;
    feed->rejected_ctx = ctx;
    feed->link.backoff = (struct backoff){FEED_BACKOFF_BASE_MS, FEED_BACKOFF_CAP_MS, 0};
    feed_batch_reset(&feed->batch, feed->store);
    ev_init(&feed->link.readable, on_link_socket);
    ev_init(&feed->link.writable, on_link_socket);
    ev_timer_init(&feed->link.retry, on_retry, 0.0, 0.0);
    ev_timer_init(&feed->feedback.timer, on_feedback, FEED_FEEDBACK_S, FEED_FEEDBACK_S);
    ev_init(&feed->link.timeout, on_timeout);
    feed->link.timeout.repeat = FEED_CONNECT_TIMEOUT_S;
    feed->link.readable.data = feed->link.writable.data = feed;
    feed->link.retry.data = feed->feedback.timer.data = feed->link.timeout.data = feed;
    ev_timer_start(loop, &feed->feedback.timer);
    feed->store_listener = (struct store_listener){on_store_up, on_store_down, feed, NULL};
    store_listen(store, &feed->store_listener);
    if (store_is_up(store))
        feed_connect(feed);
    return feed;
}

void
feed_close(struct feed *feed)
{
    if (feed == NULL)
        return;
    feed->closing = true;
    if (feed->state == FEED_STREAMING)
        feed_send_feedback(feed);
    feed_set_state(feed, FEED_WAITING);
    feed_drop_connection(feed);
    ev_timer_stop(feed->loop, &feed->link.retry);
    ev_timer_stop(feed->loop, &feed->feedback.timer);
}

void
feed_free(struct feed *feed)
{
    if (feed == NULL)
        return;
    feed_batch_free(&feed->batch);
    postgres_connect_free(&feed->link.connect);
    free(feed->rules.text);
    free(feed);
}
