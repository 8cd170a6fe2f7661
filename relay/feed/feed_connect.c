/* feed_connect.c: from a connection string to a streaming slot, one answer at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "feed/feed_private.h"

#define COMMAND_MAX 2048
#define SQLSTATE_IN_USE "55006"

static void on_claimed(void *ctx, enum rc rc, const char *position, uint32_t timeline);

/* Sends a command whose answer comes to feed_on_result in `state`. */
static void
ask(struct feed *feed, enum feed_state state, const char *command)
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
    const char *hint = feed_error_hint(NULL, message);

    feed_restart(feed, "could not connect to PostgreSQL: %s%s%s", feed_error_line(message),
                 hint[0] != '\0' ? "; " : "", hint);
}

void
feed_connect(struct feed *feed)
{
    const char *keys[] = {"dbname", "replication", "fallback_application_name", "client_encoding",
                          NULL};
    const char *values[] = {feed->config->feed.conninfo, "database", "clairon", "UTF8", NULL};

    feed->attempt++;
    feed_set_state(feed, FEED_CONNECTING);
    feed->conn = PQconnectStartParams(keys, values, 1);
    if (feed->conn == NULL || PQstatus(feed->conn) == CONNECTION_BAD) {
        feed_restart(feed, "could not connect to PostgreSQL: %s",
                     feed->conn != NULL ? feed_error_line(PQerrorMessage(feed->conn))
                                        : "no memory");
        return;
    }
    ev_timer_again(feed->loop, &feed->patience);
    ev_io_set(&feed->writable, PQsocket(feed->conn), EV_WRITE);
    ev_io_start(feed->loop, &feed->writable); /* libpq: begin as if it had asked for writing */
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
    ask(feed, FEED_IDENTIFYING, "IDENTIFY_SYSTEM");
}

/* Asks the store for the slot's progress; the answer goes on from `state`. */
static void
claim(struct feed *feed, enum feed_state state)
{
    struct feed_ticket *ticket = memory_new(sizeof(*ticket));

    *ticket = (struct feed_ticket){feed, feed->attempt};
    feed_set_state(feed, state);
    if (store_claim(feed->store, feed->config->feed.slot, feed->system, feed->timeline, on_claimed,
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
    ask(feed, FEED_READING_HISTORY, command);
}

static void
create_slot(struct feed *feed)
{
    char command[COMMAND_MAX];

    log_info("feed",
             "creating slot \"%s\" (waits for running transactions to end; on a standby of an idle "
             "primary, for SELECT pg_log_standby_snapshot() there)",
             feed->config->feed.slot);
    ev_timer_stop(feed->loop, &feed->patience);
    snprintf(command, sizeof(command),
             "CREATE_REPLICATION_SLOT \"%s\" LOGICAL clairon NOEXPORT_SNAPSHOT",
             feed->config->feed.slot);
    ask(feed, FEED_CREATING, command);
}

static void
on_claimed(void *ctx, enum rc rc, const char *position, uint32_t timeline)
{
    struct feed_ticket *ticket = ctx;
    struct feed *feed = ticket->feed;
    bool is_ours = ticket->attempt == feed->attempt;

    free(ticket);
    if (!is_ours || feed->closing)
        return;
    if (rc != RC_OK) {
        feed_restart(feed, "the store does not give the progress of slot \"%s\"",
                     feed->config->feed.slot);
        return;
    }
    snprintf(feed->sent_position, sizeof(feed->sent_position), "%s", position);
    feed->stored_timeline = timeline;
    if (feed->state == FEED_OWNING)
        feed_stream_begin(feed);
    else if (feed_progress_is_void(feed))
        return; /* the store is told, and comes back */
    else if (timeline != feed->timeline)
        ask_history(feed);
    else if (feed->must_create)
        create_slot(feed);
    else if (feed_needs_members(feed))
        feed_copy_members(feed);
    else
        feed_begin_start(feed);
}

static void
on_identified(struct feed *feed, const PGresult *result)
{
    char command[COMMAND_MAX];

    snprintf(feed->system, sizeof(feed->system), "%s", PQgetvalue(result, 0, 0));
    feed->timeline = (uint32_t)strtoul(PQgetvalue(result, 0, 1), NULL, 10);
    snprintf(command, sizeof(command),
             "SELECT plugin, database = current_database(), active"
             " FROM pg_catalog.pg_replication_slots WHERE slot_name = '%s'",
             feed->config->feed.slot);
    ask(feed, FEED_FINDING, command);
}

/* Nothing is wrong: the slot has a reader, and is tried again until it has none. */
static void
stand_by(struct feed *feed)
{
    if (!feed->is_standby)
        log_info("feed", "slot \"%s\" is read by another relay, standing by",
                 feed->config->feed.slot);
    feed->is_standby = true;
    feed_restart(feed, "standby");
}

static void
on_slot_found(struct feed *feed, const PGresult *result)
{
    const char *slot = feed->config->feed.slot;

    feed->must_create = false;
    if (PQntuples(result) == 0 && !feed->config->feed.create_slot) {
        feed_restart(feed,
                     "slot \"%s\" does not exist: SELECT pg_create_logical_replication_slot('%s', "
                     "'clairon') in this database, or set [feed] create_slot = on",
                     slot, slot);
    } else if (PQntuples(result) == 0) {
        feed->must_create = true;
        claim(feed, FEED_CLAIMING); /* a store that refuses must not leave a slot behind */
    } else if (strcmp(PQgetvalue(result, 0, 0), "clairon") != 0) {
        feed_restart(feed,
                     "slot \"%s\" belongs to plugin \"%s\", not to clairon: choose another "
                     "[feed] slot",
                     slot, PQgetvalue(result, 0, 0));
    } else if (strcmp(PQgetvalue(result, 0, 1), "t") != 0) {
        feed_restart(feed, "slot \"%s\" belongs to another database than [feed] conninfo names",
                     slot);
    } else if (strcmp(PQgetvalue(result, 0, 2), "t") == 0) {
        stand_by(feed);
    } else {
        claim(feed, FEED_CLAIMING);
    }
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
    ask(feed, FEED_STARTING, command);
}

/* The server refused: says what, and what would be right. */
static void
on_refusal(struct feed *feed, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorMessage(result);
    const char *hint;

    if (feed->state == FEED_STARTING && sqlstate != NULL &&
        strcmp(sqlstate, SQLSTATE_IN_USE) == 0) {
        stand_by(feed);
        return;
    }
    hint = feed_error_hint(sqlstate, message);
    feed_restart(feed, "PostgreSQL refused: %s%s%s", feed_error_line(message),
                 hint[0] != '\0' ? "; " : "", hint);
}

static void
on_good_result(struct feed *feed, const PGresult *result)
{
    switch (feed->state) {
    case FEED_IDENTIFYING:
        on_identified(feed, result);
        return;
    case FEED_FINDING:
        on_slot_found(feed, result);
        return;
    case FEED_READING_HISTORY:
        feed_on_history(feed, PQgetvalue(result, 0, 1));
        return;
    case FEED_CREATING:
        log_info("feed", "slot \"%s\" created", feed->config->feed.slot);
        ev_timer_again(feed->loop, &feed->patience);
        feed->must_create = false;
        claim(feed, FEED_CLAIMING);
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
        claim(feed, FEED_OWNING);
    } else if (status == PGRES_TUPLES_OK) {
        on_good_result(feed, result);
    } else {
        on_refusal(feed, result);
    }
    PQclear(result);
}
