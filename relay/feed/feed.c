/*
 * feed.c: one feed from its start to its end: its timers and its socket, and the steps from a
 * connection string to a streaming slot, with the initial copy of the memberships.
 */
#include "feed/feed_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

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

/* ---- the start of replication */

/* Doubles single quotes. Replication commands have no other escape. */
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

static void
start_replication(struct feed *feed)
{
    char command[FEED_COMMAND_MAX];
    char prefix[FEED_COMMAND_MAX / 2];
    int len =
        snprintf(command, sizeof(command),
                 "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 (mode 'framed', "
                 "owner_bytes '%lld B', owner_memory '%lld B', owner_time '%lld ms', "
                 "owner_wal_factor '%d'",
                 feed->config->feed.slot, (long long)feed->config->feed.owner_bytes,
                 (long long)feed->config->feed.owner_memory,
                 (long long)feed->config->feed.owner_time_ms, feed->config->feed.owner_wal_factor);

    if (feed->config->feed.topic_prefix != NULL) {
        quote_literal(prefix, sizeof(prefix), feed->config->feed.topic_prefix);
        len +=
            snprintf(command + len, sizeof(command) - (size_t)len, ", topic_prefix '%s'", prefix);
    }
    snprintf(command + len, sizeof(command) - (size_t)len, ")");
    store_set_topic_prefix(feed->store,
                           feed->config->feed.topic_prefix != NULL
                               ? feed->config->feed.topic_prefix
                               : PQdb(feed->connection.conn)); /* the plugin's default */
    feed_send_command(feed, FEED_STARTING, command);
}

/* ---- the initial copy of clairon.member, for a store without progress */

/* After a completed copy, the progress is at least (0, FRAME_ORDINAL_COMMIT). */
static bool
needs_members(const struct feed *feed)
{
    char copied[FRAME_POSITION_TEXT + 1];

    frame_position_text(0, FRAME_ORDINAL_COMMIT, copied);
    return strcmp(feed->batch.sent_position, copied) < 0;
}

/*
 * In a database that is not UTF-8, a value without an equivalent in UTF-8 would fail every copy.
 * clairon.utf8() converts values as the decoder does. Hex protects the result from a second
 * conversion.
 */
static const char *
members_query(const struct feed *feed)
{
    const char *encoding = PQparameterStatus(feed->connection.conn, "server_encoding");

    if (encoding == NULL || strcmp(encoding, "UTF8") == 0)
        return "SELECT audience, target, user_id FROM clairon.member";
    return "SELECT pg_catalog.encode(clairon.utf8(audience), 'hex'),"
           " pg_catalog.encode(clairon.utf8(target), 'hex'),"
           " pg_catalog.encode(clairon.utf8(user_id), 'hex'), true FROM clairon.member";
}

/* Leaves the LSN at 0, so that copied members sort before all WAL. */
static void
put_common(unsigned char *frame, char kind, size_t len, uint64_t ordinal)
{
    bytes_put_u32(frame + FRAME_AT_LENGTH, (uint32_t)len);
    frame[FRAME_AT_KIND] = (unsigned char)kind;
    frame[FRAME_AT_VERSION] = FRAME_VERSION;
    bytes_put_u64(frame + FRAME_AT_ORDINAL, ordinal);
}

/* Returns the end of the written bytes. */
static unsigned char *
put_text(unsigned char *out, const char *text, size_t len, bool is_hex)
{
    if (!is_hex) {
        memcpy(out, text, len);
        return out + len;
    }
    for (size_t i = 0; i < len; i++, text += 2)
        *out++ = (unsigned char)(hex_value(text[0]) << 4 | hex_value(text[1]));
    return out;
}

/* Encodes a row as a member frame, so that copy and stream share one code path. */
static void
handle_row(struct feed *feed, const PGresult *row)
{
    size_t lens[3];
    size_t total = FRAME_MEMBER_HEAD_SIZE;
    bool is_hex = PQnfields(row) > 3;
    unsigned char *frame, *out;

    for (int i = 0; i < 3; i++) {
        lens[i] = (size_t)PQgetlength(row, 0, i) / (is_hex ? 2 : 1);
        if (lens[i] > FRAME_MEMBER_TEXT_MAX) {
            log_warn("feed", "row of clairon.member too long, skipped",
                     LOG_INT("limit_bytes", FRAME_MEMBER_TEXT_MAX));
            return;
        }
        total += lens[i];
    }
    frame = memory_new(total);
    feed->copy.rows++;
    put_common(frame, FRAME_KIND_MEMBER, total, ++feed->copy.ordinal);
    frame[FRAME_MEMBER_AT_CHANGE] = '+';
    bytes_put_u16(frame + FRAME_MEMBER_AT_AUDIENCE_LEN, (uint16_t)lens[0]);
    bytes_put_u16(frame + FRAME_MEMBER_AT_TARGET_LEN, (uint16_t)lens[1]);
    bytes_put_u16(frame + FRAME_MEMBER_AT_USER_LEN, (uint16_t)lens[2]);
    out = frame + FRAME_MEMBER_HEAD_SIZE;
    for (int i = 0; i < 3; i++)
        out = put_text(out, PQgetvalue(row, 0, i), lens[i], is_hex);
    (void)feed_stream_receive(feed, (char *)frame, (struct bytes){frame, total});
}

/* Ends the copy: sets the initial progress, or restores the progress after a repeated copy. */
static void
copy_done(struct feed *feed)
{
    unsigned char *end = memory_new(FRAME_COMMIT_SIZE);
    uint64_t lsn = 0, ordinal = 0;

    if (frame_position_parse(feed->copy.to, strlen(feed->copy.to), &lsn, &ordinal) != RC_OK ||
        lsn == 0)
        ordinal = FRAME_ORDINAL_COMMIT;
    put_common(end, FRAME_KIND_COMMIT, FRAME_COMMIT_SIZE, ordinal);
    bytes_put_u64(end + FRAME_AT_COMMIT_LSN, lsn);
    feed->copy.to[0] = '\0';
    if (!feed_stream_receive(feed, (char *)end, (struct bytes){end, FRAME_COMMIT_SIZE}))
        return;
    feed->batch.confirm_lsn = feed->slot.lsn; /* the copy contains every change before the slot */
    feed_stream_flush(feed);
    if (feed->state != FEED_COPYING)
        return;
    log_info("feed", "copied clairon.member", LOG_UINT("rows", feed->copy.rows));
    start_replication(feed);
}

static void
copy_failed(struct feed *feed, const PGresult *result)
{
    const char *message = PQresultErrorMessage(result);
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    feed_fail(feed, "could not read clairon.member", message,
              postgres_error_hint(sqlstate, message));
}

static void
on_member_rows(struct feed *feed)
{
    /* the timer limits the wait for data, not the duration of the copy */
    ev_timer_again(feed->loop, &feed->connection.timeout);
    while (feed->state == FEED_COPYING && feed_flights_have_room(&feed->flights) &&
           PQisBusy(feed->connection.conn) == 0) {
        PGresult *result = PQgetResult(feed->connection.conn);
        ExecStatusType status = PQresultStatus(result);

        if (result == NULL)
            copy_done(feed);
        else if (status == PGRES_SINGLE_TUPLE)
            handle_row(feed, result);
        else if (status != PGRES_TUPLES_OK) /* after the last row */
            copy_failed(feed, result);
        PQclear(result);
    }
    if (feed->state == FEED_COPYING)
        feed_pace_reading(feed);
}

/*
 * The copy starts after the slot exists, so every later change arrives through the slot. Changes
 * between the slot's start and the copy arrive twice, which is harmless: each change sets a
 * membership, and the last change of a row agrees with the copy.
 */
static void
copy_members(struct feed *feed)
{
    uint64_t lsn = 0;

    feed->copy.rows = 0;
    feed->copy.ordinal = 0;
    if (feed->batch.sent_position[0] != '\0' &&
        frame_position_parse(feed->batch.sent_position, strlen(feed->batch.sent_position), &lsn,
                             &feed->copy.ordinal) != RC_OK) {
        feed_restart(feed, "invalid progress of the slot in the store",
                     LOG_TEXT("position", feed->batch.sent_position));
        return;
    }
    if (PQsendQuery(feed->connection.conn, members_query(feed)) != 1 ||
        PQsetSingleRowMode(feed->connection.conn) != 1) {
        feed_restart(feed, "could not query clairon.member",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->connection.conn))));
        return;
    }
    feed_set_state(feed, FEED_COPYING);
    feed->resume_reading = on_member_rows;
    feed_flush_socket(feed);
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
    else if (needs_members(feed) && !store_is_complete(feed->store))
        feed_restart(feed, "could not copy memberships: shards of the store are unavailable");
    else if (needs_members(feed))
        copy_members(feed);
    else
        start_replication(feed);
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
        on_member_rows(feed);
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
on_reconnect(struct ev_loop *loop, ev_timer *timer, int events)
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
    if (!feed->closing && feed->state == FEED_WAITING && !ev_is_active(&feed->connection.reconnect))
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
    ev_timer_init(&feed->connection.reconnect, on_reconnect, 0.0, 0.0);
    ev_timer_init(&feed->feedback.timer, feed_on_feedback, FEED_FEEDBACK_S, FEED_FEEDBACK_S);
    ev_timer_init(&feed->feedback.idle, feed_on_idle, 0.0, 0.0);
    ev_init(&feed->connection.timeout, on_timeout);
    feed->connection.timeout.repeat = FEED_CONNECT_TIMEOUT_S;
    feed->connection.readable.data = feed->connection.writable.data = feed;
    feed->connection.reconnect.data = feed->feedback.timer.data = feed->connection.timeout.data =
        feed;
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
    ev_timer_stop(feed->loop, &feed->connection.reconnect);
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
