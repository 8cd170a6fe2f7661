/* feed.c: the life of a feed: it waits, connects, streams, and starts over. */
#include "feed/feed_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

#define FEED_BACKOFF_BASE_MS 100
#define FEED_BACKOFF_CAP_MS 5000
#define FEED_STANDBY_RETRY_S 0.5
#define FEED_FEEDBACK_S 0.5
#define STATUS_EVERY_US 10000000 /* when the server has no wal_sender_timeout */
#define REASON_MAX 2048

struct feed *
feed_take_ticket(struct feed_ticket *ticket)
{
    struct feed *feed = ticket->feed;
    bool counts = ticket->attempt == feed->attempt && !feed->closing;

    free(ticket);
    return counts ? feed : NULL;
}

void
feed_set_state(struct feed *feed, enum feed_state state)
{
    feed->state = state;
}

const char *
feed_state_name(const struct feed *feed)
{
    if (feed->state == FEED_STREAMING)
        return "streaming";
    if (feed->is_standby)
        return "standby";
    return feed->state == FEED_WAITING ? "waiting" : "connecting";
}

static void
drop_connection(struct feed *feed)
{
    ev_io_stop(feed->loop, &feed->readable);
    ev_io_stop(feed->loop, &feed->writable);
    ev_timer_stop(feed->loop, &feed->patience);
    feed->patience.repeat = FEED_CONNECT_PATIENCE_S;
    feed_primary_end(feed);
    feed_standby_end(feed);
    feed_rules_end(feed);
    feed_hosts_end(&feed->hosts);
    PQclear(feed->result);
    feed->result = NULL;
    PQfinish(feed->conn);
    feed->conn = NULL;
    feed->attempt++; /* answers that still come belong to the past */
    feed_stream_reset(feed);
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
    if (!feed->is_standby || (feed->state != FEED_STARTING && feed->state != FEED_FINDING)) {
        feed->is_standby = false;
        delay_s = (double)backoff_next_ms(&feed->backoff) / 1000.0;
        stats_add(feed->stats, STAT_FEED_RECONNECTS, 1);
        log_warn("feed", "%s; trying again in %.1f s", reason, delay_s);
    }
    feed_set_state(feed, FEED_WAITING);
    drop_connection(feed);
    ev_timer_stop(feed->loop, &feed->retry);
    ev_timer_set(&feed->retry, delay_s, 0.0);
    ev_timer_start(feed->loop, &feed->retry);
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
    int left = PQflush(feed->conn);

    if (left < 0) {
        feed_restart(feed, "lost PostgreSQL: %s", feed_error_line(PQerrorMessage(feed->conn)));
        return;
    }
    if (left > 0)
        ev_io_start(feed->loop, &feed->writable);
    else
        ev_io_stop(feed->loop, &feed->writable);
    if (feed->state != FEED_STREAMING)
        ev_io_start(feed->loop, &feed->readable);
}

static void
on_socket(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct feed *feed = watcher->data;

    (void)loop;
    if (feed->state == FEED_CONNECTING) {
        feed_on_connecting(feed);
        return;
    }
    if ((events & EV_WRITE) != 0)
        feed_flush_socket(feed);
    if ((events & EV_READ) == 0 || feed->state == FEED_WAITING)
        return;
    if (feed->state != FEED_STREAMING) {
        feed_on_result(feed);
    } else if (PQconsumeInput(feed->conn) == 0) {
        feed_restart(feed, "lost PostgreSQL: %s", feed_error_line(PQerrorMessage(feed->conn)));
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
on_patience(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    if (feed->state == FEED_CREATING)
        feed_restart(feed,
                     "slot \"%s\" was not made within %.0f s ([feed] create_timeout): its primary "
                     "has not logged its running transactions, or some of them do not end",
                     feed->config->feed.slot, timer->repeat);
    else if (feed->hosts.resolve != NULL)
        feed_restart(feed, "no name server told the addresses of [feed] conninfo within %.0f s",
                     timer->repeat);
    else
        feed_restart(feed, "PostgreSQL did not answer within %.0f s", timer->repeat);
}

/*
 * A server that vanished without a word shows by its silence: it asks for a word of ours after
 * half its wal_sender_timeout, and gives us up after all of it, as we do. It must not be asked for
 * a word (decoder/FRAMES.md), so ours come late enough for it to ask. False when it was given up.
 */
static bool
server_speaks(struct feed *feed)
{
    int64_t now_us = clock_monotonic_us();

    if (!feed_stream_has_room(feed))
        feed->heard_us = now_us; /* it is we who do not listen */
    if (feed->timeout_us == 0 || now_us - feed->heard_us <= feed->timeout_us)
        return true;
    feed_restart(feed, "PostgreSQL was silent for %.0f s (its wal_sender_timeout)",
                 (double)feed->timeout_us / 1e6);
    return false;
}

/* A word is due after more than half of the server's patience, and in good time before its end. */
static bool
status_is_due(const struct feed *feed)
{
    int64_t every_us = feed->timeout_us > 0 ? feed->timeout_us / 10 * 6 : STATUS_EVERY_US;

    return clock_monotonic_us() - feed->feedback_us > every_us;
}

/* Feedback has its own beat: it must not depend on what arrives. */
static void
on_feedback(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    if (feed->state != FEED_STREAMING)
        return;
    feed_show_lag(feed);
    if (!server_speaks(feed))
        return;
    feed_stream_idle(feed);
    if (feed->state != FEED_STREAMING)
        return;
    feed_confirm_replicas(feed);
    feed_confirm_update(feed);
    if (feed->confirmed_lsn != feed->told_lsn)
        feed->heard_us = clock_monotonic_us(); /* our word puts off the one it would ask for */
    if (status_is_due(feed) || feed->confirmed_lsn != feed->told_lsn)
        feed_send_feedback(feed);
}

static void
on_store_up(void *ctx)
{
    struct feed *feed = ctx;

    if (feed->state == FEED_WAITING && !ev_is_active(&feed->retry))
        feed_connect(feed);
}

static void
on_store_down(void *ctx)
{
    feed_restart(ctx, "the store went away");
}

struct feed *
feed_open(struct ev_loop *loop, const struct config *config, struct store *store,
          struct stats *stats, feed_refused *refused, void *ctx)
{
    struct feed *feed = memory_new(sizeof(*feed));

    feed->loop = loop;
    feed->config = config;
    feed->store = store;
    feed->stats = stats;
    feed->refused = refused;
    feed->refused_ctx = ctx;
    feed->backoff = (struct backoff){FEED_BACKOFF_BASE_MS, FEED_BACKOFF_CAP_MS, 0};
    feed_stream_reset(feed);
    ev_init(&feed->readable, on_socket);
    ev_init(&feed->writable, on_socket);
    ev_timer_init(&feed->retry, on_retry, 0.0, 0.0);
    ev_timer_init(&feed->feedback, on_feedback, FEED_FEEDBACK_S, FEED_FEEDBACK_S);
    ev_init(&feed->patience, on_patience);
    feed->patience.repeat = FEED_CONNECT_PATIENCE_S;
    feed->readable.data = feed->writable.data = feed;
    feed->retry.data = feed->feedback.data = feed->patience.data = feed;
    ev_timer_start(loop, &feed->feedback);
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
    drop_connection(feed);
    ev_timer_stop(feed->loop, &feed->retry);
    ev_timer_stop(feed->loop, &feed->feedback);
}

void
feed_free(struct feed *feed)
{
    if (feed == NULL)
        return;
    store_batch_free(feed->batch);
    feed_hosts_free(&feed->hosts);
    free(feed->held);
    free(feed->rules_text);
    free(feed);
}
