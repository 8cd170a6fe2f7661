/* feed_primary.c: asks the primary to log what a new slot on its standby waits for. */
#include "base/log.h"
#include "feed/feed_private.h"

#define ASK_EVERY_S 1.0

/*
 * A slot begins at a record of the running transactions, which an idle primary does not write by
 * itself. One made while transactions run needs more than one, so it is asked for until the slot is
 * there. What goes wrong is said once, and tried again: the slot may come about without.
 */
static void
hang_up(struct feed *feed)
{
    ev_io_stop(feed->loop, &feed->primary_socket);
    PQfinish(feed->primary);
    feed->primary = NULL;
}

static void
complain(struct feed *feed)
{
    if (!feed->primary_complained)
        log_warn("feed", "the primary does not log what slot \"%s\" waits for: %s",
                 feed->config->feed.slot, feed_error_line(PQerrorMessage(feed->primary)));
    feed->primary_complained = true;
    hang_up(feed);
}

static void
wait_for(struct feed *feed, int events)
{
    ev_io_stop(feed->loop, &feed->primary_socket);
    ev_io_set(&feed->primary_socket, PQsocket(feed->primary), events);
    ev_io_start(feed->loop, &feed->primary_socket);
}

static void
ask(struct feed *feed)
{
    if (PQsendQuery(feed->primary, "SELECT pg_catalog.pg_log_standby_snapshot()") != 1)
        complain(feed);
    else
        wait_for(feed, EV_READ);
}

static void
on_answer(struct feed *feed)
{
    PGresult *result;

    if (PQconsumeInput(feed->primary) == 0) {
        complain(feed);
        return;
    }
    while (PQisBusy(feed->primary) == 0 && (result = PQgetResult(feed->primary)) != NULL) {
        bool failed = PQresultStatus(result) != PGRES_TUPLES_OK;

        PQclear(result);
        if (failed) {
            complain(feed);
            return;
        }
    }
}

static void
on_primary(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct feed *feed = watcher->data;

    (void)loop;
    (void)events;
    if (PQstatus(feed->primary) == CONNECTION_OK) {
        on_answer(feed);
        return;
    }
    switch (PQconnectPoll(feed->primary)) {
    case PGRES_POLLING_READING:
        wait_for(feed, EV_READ);
        return;
    case PGRES_POLLING_WRITING:
        wait_for(feed, EV_WRITE);
        return;
    case PGRES_POLLING_OK:
        ask(feed);
        return;
    default:
        complain(feed);
    }
}

static void
on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;
    const char *keys[] = {"dbname", "fallback_application_name", NULL};
    const char *values[] = {feed->config->feed.primary_conninfo, "clairon", NULL};

    (void)loop;
    (void)events;
    if (feed->primary != NULL) {
        if (PQstatus(feed->primary) == CONNECTION_OK &&
            PQtransactionStatus(feed->primary) == PQTRANS_IDLE)
            ask(feed);
        return;
    }
    feed->primary = PQconnectStartParams(keys, values, 1);
    if (feed->primary == NULL)
        return; /* no memory: the next time */
    if (PQstatus(feed->primary) == CONNECTION_BAD)
        complain(feed);
    else
        wait_for(feed, EV_WRITE);
}

void
feed_primary_begin(struct feed *feed)
{
    feed->primary_complained = false;
    ev_init(&feed->primary_socket, on_primary);
    ev_timer_init(&feed->primary_time, on_time, 0.0, ASK_EVERY_S);
    feed->primary_socket.data = feed->primary_time.data = feed;
    ev_timer_start(feed->loop, &feed->primary_time);
}

void
feed_primary_end(struct feed *feed)
{
    if (!ev_is_active(&feed->primary_time))
        return;
    ev_timer_stop(feed->loop, &feed->primary_time);
    hang_up(feed);
}
