/* feed_connect.c: the steps from a connection string to a streaming slot. */
#include "feed/feed_connect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/feed_command.h"
#include "feed/feed_history.h"
#include "feed/feed_parts.h"
#include "feed/feed_stream.h"

#define ADDRESS_CACHE_US 30000000
#define SQLSTATE_IN_USE "55006"

static void on_progress(struct feed *feed);

/* NOTICE and WARNING messages, such as the warning about a missing synchronized standby. */
static void
on_notice(void *ctx, const char *message)
{
    (void)ctx;
    log_warn("feed", "server notice", LOG_TEXT("notice", postgres_error_line(message)));
}

static void
on_link_connected(void *ctx, enum rc rc, PGconn *conn, const char *error)
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
    feed->link.conn = conn;
    ev_io_set(&feed->link.readable, PQsocket(conn), EV_READ);
    ev_io_set(&feed->link.writable, PQsocket(conn), EV_WRITE);
    if (PQsetnonblocking(conn, 1) != 0)
        feed_restart(feed, "could not make the PostgreSQL connection non-blocking");
    else
        feed_send_command(feed, FEED_SETTING, postgres_session_command(conn));
}

void
feed_connect(struct feed *feed)
{
    struct postgres_connect *connect = &feed->link.connect;

    feed->link.attempt++;
    feed->slot.on_acquired = on_progress;
    feed_set_state(feed, FEED_CONNECTING);
    ev_timer_again(feed->loop, &feed->link.timeout);
    connect->loop = feed->loop;
    connect->conninfo = feed->config->feed.conninfo;
    connect->replication = "database";
    connect->on_notice = on_notice;
    connect->done = on_link_connected;
    connect->ctx = feed;
    /* A relay on standby connects twice a second, so it reuses the resolved addresses. */
    postgres_connect_start(connect, feed->slot.is_standby ? ADDRESS_CACHE_US : 0);
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
 * created the slot or stored rows in between: the queries are repeated, until their results are newer
 * than the progress that they are compared with.
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
        feed_enter_standby(feed);
        return;
    }
    feed_fail(feed, "PostgreSQL rejected the command", message,
              postgres_error_hint(sqlstate, message));
}

static void
on_good_result(struct feed *feed, const PGresult *result)
{
    if (PQntuples(result) == 0) { /* protocol violation */
        feed_restart(feed, "PostgreSQL returned no row");
        return;
    }
    switch (feed->state) {
    case FEED_IDENTIFYING:
        on_identified(feed, result);
        return;
    case FEED_FINDING:
        feed_on_slot(feed, result);
        return;
    case FEED_READING_HISTORY:
        feed_on_history(feed, PQgetvalue(result, 0, 1));
        return;
    case FEED_CREATING:
        feed_on_slot_created(feed, result);
        return;
    default:
        feed_restart(feed, "unexpected result from PostgreSQL");
    }
}

/* Collects the results of one command. Returns true once complete; the last result is kept. */
static bool
collect_result(struct feed *feed)
{
    while (PQisBusy(feed->link.conn) == 0) {
        PGresult *result = PQgetResult(feed->link.conn);

        if (result == NULL)
            return feed->link.result != NULL;
        PQclear(feed->link.result);
        feed->link.result = result;
        if (PQresultStatus(result) == PGRES_COPY_BOTH)
            return true; /* the server starts to stream */
    }
    return false;
}

void
feed_on_result(struct feed *feed)
{
    PGresult *result;
    ExecStatusType status;

    if (PQconsumeInput(feed->link.conn) == 0) {
        feed_restart(feed, "PostgreSQL connection lost",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->link.conn))));
        return;
    }
    if (feed->state == FEED_COPYING) {
        feed_on_member_rows(feed);
        return;
    }
    if (feed->state == FEED_ACQUIRING || feed->state == FEED_REACQUIRING ||
        feed->state == FEED_RESETTING || !collect_result(feed))
        return;
    result = feed->link.result;
    feed->link.result = NULL;
    status = PQresultStatus(result);
    if (feed->state == FEED_STARTING && status == PGRES_COPY_BOTH) {
        ev_io_stop(feed->loop, &feed->link.readable);
        feed_acquire(feed, FEED_REACQUIRING);
    } else if (feed->state == FEED_SETTING && status == PGRES_COMMAND_OK) {
        identify(feed);
    } else if (feed->state == FEED_DROPPING && status == PGRES_COMMAND_OK) {
        feed_on_slot_dropped(feed);
    } else if (status == PGRES_TUPLES_OK) {
        on_good_result(feed, result);
    } else {
        on_error_result(feed, result);
    }
    PQclear(result);
}
