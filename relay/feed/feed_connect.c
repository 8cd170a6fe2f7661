/* feed_connect.c: from a connection string to a streaming slot, one answer at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "feed/feed_private.h"
#include "store/topic_prefix.h"

#define COMMAND_MAX 2048
#define KNOWN_US 30000000
#define SQLSTATE_IN_USE "55006"

static void on_claimed(void *ctx, enum rc rc, const struct store_progress *progress);

void
feed_ask(struct feed *feed, enum feed_state state, const char *command)
{
    if (PQsendQuery(feed->conn, command) != 1) {
        feed_restart(feed, "could not send: %s", feed_error_line(PQerrorMessage(feed->conn)));
        return;
    }
    feed_set_state(feed, state);
    feed_flush_socket(feed);
}

static void
connection_failed(struct feed *feed)
{
    const char *message = feed->conn != NULL ? PQerrorMessage(feed->conn) : "out of memory";

    feed_fail(feed, "could not connect to PostgreSQL", message, feed_error_hint(NULL, message));
}

/* What the server remarks beside its answers, as that a standby it waits for is not there. */
static void
on_notice(void *ctx, const char *message)
{
    (void)ctx;
    log_warn("feed", "PostgreSQL remarks: %s", feed_error_line(message));
}

static void
on_hosts(void *ctx, const struct feed_hosts_found *found, const char *error)
{
    struct feed *feed = ctx;
    const char *conninfo = feed->config->feed.conninfo;

    if (found == NULL) {
        feed_fail(feed, "could not find the address of a host in [feed] conninfo", error, "");
        return;
    }
    /* What stands before dbname, which is all of conninfo, is only what that does not say. */
    const char *keys[] = {"tcp_user_timeout",
                          "keepalives_idle",
                          "keepalives_interval",
                          "keepalives_count",
                          "dbname",
                          "replication",
                          "fallback_application_name",
                          "client_encoding",
                          "host",
                          "hostaddr",
                          "port",
                          NULL};
    const char *values[] = {"20000",     "10",      "5",    "3",         conninfo,
                            "database",  "clairon", "UTF8", found->host, found->hostaddr,
                            found->port, NULL};

    feed->conn = PQconnectStartParams(keys, values, 1);
    if (feed->conn == NULL || PQstatus(feed->conn) == CONNECTION_BAD) {
        connection_failed(feed);
        return;
    }
    PQsetNoticeProcessor(feed->conn, on_notice, NULL);
    ev_timer_again(feed->loop, &feed->patience);
    ev_io_set(&feed->writable, PQsocket(feed->conn), EV_WRITE);
    ev_io_start(feed->loop, &feed->writable); /* libpq: begin as if it had asked for writing */
}

void
feed_connect(struct feed *feed)
{
    feed->attempt++;
    feed_set_state(feed, FEED_CONNECTING);
    ev_timer_again(feed->loop, &feed->patience);
    feed->hosts.loop = feed->loop;
    feed->hosts.done = on_hosts;
    feed->hosts.ctx = feed;
    /* Who stands by comes twice a second. */
    feed_hosts_find(&feed->hosts, feed->config->feed.conninfo, feed->is_standby ? KNOWN_US : 0);
}

void
feed_on_connecting(struct feed *feed)
{
    PostgresPollingStatusType status = PQconnectPoll(feed->conn);

    ev_io_stop(feed->loop, &feed->readable);
    ev_io_stop(feed->loop, &feed->writable);
    if (status == PGRES_POLLING_FAILED) {
        connection_failed(feed);
        return;
    }
    /* The socket may be another one than before: several addresses, or no encryption after all. */
    ev_io_set(&feed->readable, PQsocket(feed->conn), EV_READ);
    ev_io_set(&feed->writable, PQsocket(feed->conn), EV_WRITE);
    if (status == PGRES_POLLING_WRITING)
        ev_io_start(feed->loop, &feed->writable);
    else
        ev_io_start(feed->loop, &feed->readable);
    if (status != PGRES_POLLING_OK)
        return;
    if (PQsetnonblocking(feed->conn, 1) != 0) {
        feed_restart(feed, "could not make the connection non-blocking");
        return;
    }
    feed_ask(feed, FEED_SETTING, feed_session_command(feed->conn));
}

void
feed_claim(struct feed *feed, enum feed_state state)
{
    struct feed_ticket *ticket = memory_new(sizeof(*ticket));

    *ticket = (struct feed_ticket){feed, feed->attempt};
    feed_set_state(feed, state);
    if (store_claim(feed->store, feed->config->feed.slot, &feed->origin, feed->timeline, on_claimed,
                    ticket) != RC_OK) {
        free(ticket);
        feed_restart(feed, "the store is away");
    }
}

static void
ask_history(struct feed *feed)
{
    char command[COMMAND_MAX];

    snprintf(command, sizeof(command), "TIMELINE_HISTORY %" PRIu32, feed->timeline);
    feed_ask(feed, FEED_READING_HISTORY, command);
}

static void
on_claimed(void *ctx, enum rc rc, const struct store_progress *progress)
{
    struct feed *feed = feed_take_ticket(ctx);

    if (feed == NULL)
        return;
    if (rc == RC_BAD) {
        feed->refused(feed->refused_ctx);
        return;
    }
    if (rc != RC_OK) {
        feed_restart(feed, "the store does not give the progress of slot \"%s\"",
                     feed->config->feed.slot);
        return;
    }
    snprintf(feed->sent_position, sizeof(feed->sent_position), "%s", progress->position);
    snprintf(feed->furthest, sizeof(feed->furthest), "%s", progress->furthest);
    feed->claimed_lsn = feed->claimed_ordinal = 0;
    if (progress->position[0] != '\0' &&
        frame_position_read(progress->position, strlen(progress->position), &feed->claimed_lsn,
                            &feed->claimed_ordinal) != RC_OK) {
        feed_restart(feed, "the slot's progress in the store is no position: %s",
                     progress->position);
        return;
    }
    feed->stored_timeline = progress->timeline;
    feed->read_lsn = progress->read_lsn;
    if (feed->state == FEED_OWNING)
        feed_stream_begin(feed);
    else if (feed_progress_is_void(feed))
        return; /* the store is told, and comes back */
    else if (feed->is_lost)
        feed_wait_for_slot(feed);
    else if (feed->stored_timeline != feed->timeline)
        ask_history(feed);
    else if (feed->must_create)
        feed_create_slot(feed);
    else if (feed_slot_moved_on(feed))
        return; /* likewise */
    else if (feed_needs_members(feed))
        feed_copy_members(feed);
    else
        feed_begin_start(feed);
}

static void
on_identified(struct feed *feed, const PGresult *result)
{
    snprintf(feed->origin.system, sizeof(feed->origin.system), "%s", PQgetvalue(result, 0, 0));
    snprintf(feed->origin.name, sizeof(feed->origin.name), "%s", PQgetvalue(result, 0, 3));
    feed->timeline = (uint32_t)strtoul(PQgetvalue(result, 0, 1), NULL, 10);
    feed_ask_slot(feed);
}

/* Doubles quotes; replication commands know no other escape. */
static void
quote_literal(char *out, size_t room, const char *text)
{
    size_t len = 0;

    for (; *text != '\0' && len + 3 < room; text++) {
        if (*text == '\'')
            out[len++] = '\'';
        out[len++] = *text;
    }
    out[len] = '\0';
}

void
feed_begin_start(struct feed *feed)
{
    char command[COMMAND_MAX];
    char prefix[COMMAND_MAX / 2];
    int len = snprintf(command, sizeof(command),
                       "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 (mode 'framed'",
                       feed->config->feed.slot);

    if (feed->config->feed.topic_prefix != NULL) {
        quote_literal(prefix, sizeof(prefix), feed->config->feed.topic_prefix);
        len +=
            snprintf(command + len, sizeof(command) - (size_t)len, ", topic_prefix '%s'", prefix);
    }
    snprintf(command + len, sizeof(command) - (size_t)len, ")");
    store_note_topic_prefix(feed->store, feed->config->feed.topic_prefix != NULL
                                             ? feed->config->feed.topic_prefix
                                             : PQdb(feed->conn)); /* as the plugin has it */
    feed_ask(feed, FEED_STARTING, command);
}

/* The server refused: says what, and what would be right. */
static void
on_refusal(struct feed *feed, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorMessage(result);

    if (feed->state == FEED_STARTING && sqlstate != NULL &&
        strcmp(sqlstate, SQLSTATE_IN_USE) == 0) {
        feed_stand_by(feed);
        return;
    }
    feed_fail(feed, "PostgreSQL refused", message, feed_error_hint(sqlstate, message));
}

static void
on_good_result(struct feed *feed, const PGresult *result)
{
    if (PQntuples(result) == 0) { /* no server of PostgreSQL does that */
        feed_restart(feed, "PostgreSQL answered without a row");
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
        feed_restart(feed, "PostgreSQL answered what was not asked");
    }
}

/* Collects one command's results; true once the answer is complete. Its last result counts. */
static bool
collect_result(struct feed *feed)
{
    while (PQisBusy(feed->conn) == 0) {
        PGresult *result = PQgetResult(feed->conn);

        if (result == NULL)
            return feed->result != NULL;
        PQclear(feed->result);
        feed->result = result;
        if (PQresultStatus(result) == PGRES_COPY_BOTH)
            return true; /* what follows is the stream */
    }
    return false;
}

void
feed_on_result(struct feed *feed)
{
    PGresult *result;
    ExecStatusType status;

    if (PQconsumeInput(feed->conn) == 0) {
        feed_restart(feed, "lost PostgreSQL: %s", feed_error_line(PQerrorMessage(feed->conn)));
        return;
    }
    if (feed->state == FEED_COPYING) {
        feed_on_member_rows(feed);
        return;
    }
    if (feed->state == FEED_CLAIMING || feed->state == FEED_OWNING ||
        feed->state == FEED_RESETTING || !collect_result(feed))
        return;
    result = feed->result;
    feed->result = NULL;
    status = PQresultStatus(result);
    if (feed->state == FEED_STARTING && status == PGRES_COPY_BOTH) {
        ev_io_stop(feed->loop, &feed->readable);
        feed_claim(feed, FEED_OWNING);
    } else if (feed->state == FEED_SETTING && status == PGRES_COMMAND_OK) {
        feed_ask(feed, FEED_IDENTIFYING, "IDENTIFY_SYSTEM");
    } else if (feed->state == FEED_DROPPING && status == PGRES_COMMAND_OK) {
        feed_on_slot_dropped(feed);
    } else if (status == PGRES_TUPLES_OK) {
        on_good_result(feed, result);
    } else {
        on_refusal(feed, result);
    }
    PQclear(result);
}
