/*
 * feed.c: one feed from its start to its end: its timers and its socket, and the steps from a
 * connection string to a streaming slot.
 */
#include "feed/feed_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#define FEED_BACKOFF_BASE_MS 100
#define FEED_BACKOFF_CAP_MS 5000
#define FEED_FEEDBACK_S 0.5
#define ADDRESS_CACHE_US 30000000
#define SQLSTATE_IN_USE "55006"

const char *
feed_availability_name(enum feed_availability availability)
{
    static const char *const names[] = {
        [FEED_OFF] = "off",         [FEED_DOWN] = "down",           [FEED_STANDBY] = "standby",
        [FEED_STALLED] = "stalled", [FEED_AVAILABLE] = "streaming",
    };

    return names[availability];
}

/* ---- the steps to the stream */

/* NOTICE and WARNING messages, such as the warning about a missing synchronized standby. */
static void
on_notice(void *ctx, const char *message)
{
    (void)ctx;
    log_warn("feed", "server notice", LOG_TEXT("notice", postgres_error_line(message)));
}

static void
on_connected(void *ctx, enum rc rc, PGconn *conn, const char *error)
{
    struct feed *feed = ctx;

    if (rc == RC_BAD) {
        feed_fail(feed, "could not resolve a host of [feed] conninfo", error, "");
        return;
    }
    if (rc != RC_OK) {
        feed_fail(feed, "could not connect to PostgreSQL", error, postgres_error_hint(NULL, error));
        return;
    }
    feed->connection.conn = conn;
    ev_io_set(&feed->connection.readable, PQsocket(conn), EV_READ);
    ev_io_set(&feed->connection.writable, PQsocket(conn), EV_WRITE);
    if (PQsetnonblocking(conn, 1) != 0)
        feed_restart(feed, "could not make the PostgreSQL connection non-blocking");
    else
        feed_send_command(feed, FEED_SETTING, postgres_session_command(conn));
}

static void
request_history(struct feed *feed)
{
    char command[FEED_COMMAND_MAX];

    snprintf(command, sizeof(command), "TIMELINE_HISTORY %" PRIu32, feed->slot.timeline);
    feed_send_command(feed, FEED_READING_HISTORY, command);
}

static void
identify(struct feed *feed)
{
    feed_send_command(feed, FEED_IDENTIFYING, "IDENTIFY_SYSTEM");
}

/*
 * The server was queried before the store. If it lacks what the store has, another relay may have
 * created the slot or stored rows in between: the queries are repeated, until their results are
 * newer than the progress that they are compared with.
 */
static bool
must_query_again(struct feed *feed)
{
    const bool is_known = strcmp(feed->slot.known, feed->slot.furthest) == 0;

    memcpy(feed->slot.known, feed->slot.furthest, sizeof(feed->slot.known));
    return !is_known && feed_server_lacks_progress(feed);
}

/* The store has returned the progress: enters the next state. */
static void
on_progress(struct feed *feed)
{
    if (feed->state == FEED_REACQUIRING)
        feed_stream_start(feed);
    else if (must_query_again(feed))
        identify(feed);
    else if (feed->slot.stored_timeline != feed->slot.timeline)
        request_history(feed);
    else if (feed_reset_if_wal_went_back(feed) || feed_reset_if_slot_lost(feed))
        return; /* RESETTING: the store closes its connections, which restarts the feed */
    else if (feed->slot.is_lost)
        feed_fail_lost_slot(feed);
    else if (feed->slot.must_create)
        feed_create_slot(feed);
    else if (feed_reset_if_slot_advanced(feed))
        return;
    else if (feed_needs_members(feed) && !store_is_complete(feed->store))
        feed_restart(feed, "could not copy memberships: shards of the store are unavailable");
    else if (feed_needs_members(feed))
        feed_copy_members(feed);
    else
        feed_start_replication(feed);
}

static void
connect_feed(struct feed *feed)
{
    struct postgres_connect *connect = &feed->connection.connect;

    feed->connection.attempt++;
    feed->slot.on_acquired = on_progress;
    feed_set_state(feed, FEED_CONNECTING);
    ev_timer_again(feed->loop, &feed->connection.timeout);
    connect->loop = feed->loop;
    connect->conninfo = feed->config->feed.conninfo;
    connect->replication = "database";
    connect->on_notice = on_notice;
    connect->done = on_connected;
    connect->ctx = feed;
    /* While the slot is in use, connects twice a second, so it reuses the resolved addresses. */
    postgres_connect_start(connect, feed->slot.holder != SLOT_FREE ? ADDRESS_CACHE_US : 0);
}

static void
on_identified(struct feed *feed, const PGresult *result)
{
    snprintf(feed->slot.origin.system, sizeof(feed->slot.origin.system), "%s",
             PQgetvalue(result, 0, 0));
    snprintf(feed->slot.origin.name, sizeof(feed->slot.origin.name), "%s",
             PQgetvalue(result, 0, 3));
    feed->slot.timeline = (uint32_t)strtoul(PQgetvalue(result, 0, 1), NULL, 10);
    feed->slot.wal_lsn = feed_lsn_read(PQgetvalue(result, 0, 2));
    feed_query_slot(feed);
}

/* Handles an error from the server. */
static void
on_error_result(struct feed *feed, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorMessage(result);

    if (feed->state == FEED_STARTING && sqlstate != NULL &&
        strcmp(sqlstate, SQLSTATE_IN_USE) == 0) {
        feed_wait_for_slot(feed, SLOT_HELD_BY_RELAY, 0);
        return;
    }
    feed_fail(feed, "PostgreSQL rejected the command", message,
              postgres_error_hint(sqlstate, message));
}

/* Collects the results of one command. Returns true once complete; the last result is kept. */
static bool
collect_result(struct feed *feed)
{
    while (PQisBusy(feed->connection.conn) == 0) {
        PGresult *result = PQgetResult(feed->connection.conn);

        if (result == NULL)
            return feed->connection.result != NULL;
        PQclear(feed->connection.result);
        feed->connection.result = result;
        if (PQresultStatus(result) == PGRES_COPY_BOTH)
            return true; /* the server starts to stream */
    }
    return false;
}

/* Handles data that the server sent before STREAMING, and starts the next step. */
static void
handle_result(struct feed *feed)
{
    enum feed_state state = feed->state;
    ExecStatusType status;
    PGresult *result;

    if (state == FEED_COPYING) {
        feed_on_member_rows(feed);
        return;
    }
    if (state == FEED_ACQUIRING || state == FEED_REACQUIRING || state == FEED_RESETTING ||
        !collect_result(feed))
        return;
    result = feed->connection.result;
    feed->connection.result = NULL;
    status = PQresultStatus(result);
    if (state == FEED_STARTING && status == PGRES_COPY_BOTH) {
        ev_io_stop(feed->loop, &feed->connection.readable);
        feed_acquire(feed, FEED_REACQUIRING);
    } else if (state == FEED_SETTING && status == PGRES_COMMAND_OK) {
        identify(feed);
    } else if (state == FEED_DROPPING && status == PGRES_COMMAND_OK) {
        feed_on_slot_dropped(feed);
    } else if (status != PGRES_TUPLES_OK) {
        on_error_result(feed, result);
    } else if (PQntuples(result) == 0) { /* protocol violation */
        feed_restart(feed, "PostgreSQL returned no row");
    } else if (state == FEED_IDENTIFYING) {
        on_identified(feed, result);
    } else if (state == FEED_FINDING) {
        feed_on_slot(feed, result);
    } else if (state == FEED_READING_HISTORY) {
        feed_on_timeline(feed, PQgetvalue(result, 0, 1));
    } else if (state == FEED_CREATING) {
        feed_on_slot_created(feed, result);
    } else {
        feed_restart(feed, "unexpected result from PostgreSQL");
    }
    PQclear(result);
}

/* ---- events */

static void
on_socket(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct feed *feed = watcher->data;

    (void)loop;
    if ((events & EV_WRITE) != 0)
        feed_flush_socket(feed);
    if ((events & EV_READ) == 0 || feed->state == FEED_WAITING)
        return;
    if (PQconsumeInput(feed->connection.conn) == 0)
        feed_restart(feed, "PostgreSQL connection lost",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->connection.conn))));
    else if (feed->state == FEED_STREAMING)
        feed_stream_pump(feed);
    else
        handle_result(feed);
}

static void
on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    if (feed->state == FEED_WAITING && store_replies(feed->store))
        connect_feed(feed);
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
    else if (postgres_connect_is_resolving(&feed->connection.connect))
        feed_restart(feed, "could not resolve the hosts of [feed] conninfo in time",
                     LOG_SECONDS("timeout_s", timer->repeat));
    else
        feed_restart(feed, "PostgreSQL did not respond in time",
                     LOG_SECONDS("timeout_s", timer->repeat));
}

static void
on_store_up(void *ctx)
{
    struct feed *feed = ctx;

    /* A draining relay leaves the slot to another relay. */
    if (!feed->closing && feed->state == FEED_WAITING && !ev_is_active(&feed->connection.retry))
        connect_feed(feed);
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
    feed->connection.backoff = (struct backoff){FEED_BACKOFF_BASE_MS, FEED_BACKOFF_CAP_MS, 0};
    feed_batch_reset(&feed->batch, feed->store);
    ev_init(&feed->connection.readable, on_socket);
    ev_init(&feed->connection.writable, on_socket);
    ev_timer_init(&feed->connection.retry, on_retry, 0.0, 0.0);
    ev_timer_init(&feed->feedback.timer, feed_on_feedback, FEED_FEEDBACK_S, FEED_FEEDBACK_S);
    ev_timer_init(&feed->feedback.idle, feed_on_idle, 0.0, 0.0);
    ev_init(&feed->connection.timeout, on_timeout);
    feed->connection.timeout.repeat = FEED_CONNECT_TIMEOUT_S;
    feed->connection.readable.data = feed->connection.writable.data = feed;
    feed->connection.retry.data = feed->feedback.timer.data = feed->connection.timeout.data = feed;
    feed->feedback.idle.data = feed;
    ev_timer_start(loop, &feed->feedback.timer);
    feed->store_listener = (struct store_listener){on_store_up, on_store_down, NULL, feed, NULL};
    store_listen(store, &feed->store_listener);
    if (store_replies(store))
        connect_feed(feed);
    else
        feed_wal_start(feed);
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
    feed_wal_end(feed);
    ev_timer_stop(feed->loop, &feed->connection.retry);
    ev_timer_stop(feed->loop, &feed->feedback.timer);
}

void
feed_free(struct feed *feed)
{
    if (feed == NULL)
        return;
    store_batch_free(feed->batch.frames);
    free(feed->batch.held);
    postgres_connect_free(&feed->connection.connect);
    free(feed->rules.text);
    free(feed);
}
