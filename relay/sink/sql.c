/* sql.c: the SQL sink, which inserts receipts into clairon.receipt on the primary. */
#include "sink/sink_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "postgres/connection.h"

#define BATCH_RECEIPTS 1000
#define BATCH_BYTES ((size_t)1024 * 1024)
#define ARRAY_BYTES_MAX ((size_t)64 * 1024 * 1024) /* a batch, or a single receipt */
#define RETRY_BASE_MS 1000
#define RETRY_CAP_MS 30000
#define TIMEOUT_S 60.0 /* of an attempt to connect, and of a statement */
#define RANGES_MAX 16  /* a batch is halved at most 10 times */
#define POSITION_MAX 64
#define LSN_DIGITS 16

/* The LSN follows the inserts of the statement, but precedes its commit. */
#define POSITION_LSN "lpad(to_hex((pg_current_wal_insert_lsn() - '0/0')::bigint), 16, '0')"

/*
 * Whether the server rejects writes; system identifier, timeline and LSN, of constant length. With
 * synchronous_commit = off, a crash could lose receipts that were acknowledged.
 */
#define QUERY_POSITION                                                                             \
    "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,"             \
    " CASE WHEN NOT pg_is_in_recovery() THEN"                                                      \
    " lpad(system_identifier::text, 20, '0') || ' ' ||"                                            \
    " left(pg_walfile_name(pg_current_wal_lsn()), 8) || ' ' || " POSITION_LSN " END,"              \
    " CASE WHEN current_setting('synchronous_commit') = 'off'"                                     \
    " THEN set_config('synchronous_commit', 'on', false) END FROM pg_control_system()"

#define COLUMNS                                                                                    \
    "notification, user_id, outcome, round, at, delivered_at, attempts, emitter, source, topic,"   \
    " acked, recipients"

/* A receipt that is already there is left alone: each is stored exactly once. */
#define STATEMENT_INSERT                                                                           \
    "WITH added AS (INSERT INTO clairon.receipt (" COLUMNS ") SELECT " COLUMNS                     \
    " FROM json_to_recordset($1::json) AS r (notification uuid, user_id text, outcome text,"       \
    " round int, at timestamptz, delivered_at timestamptz, attempts int, emitter text,"            \
    " source text, topic text, acked int, recipients int) ON CONFLICT DO NOTHING RETURNING 1)"     \
    " SELECT count(*), " POSITION_LSN " FROM added"

/*
 * CLOSED: waits for the timer. OPENING: connects, and queries the position. IDLE: the sink is
 * resumed. WRITING: a statement is running. Any failure but that of a single receipt closes the
 * connection, pauses the sink, and returns to CLOSED.
 */
enum sql_state { SQL_CLOSED, SQL_OPENING, SQL_IDLE, SQL_WRITING };

/* Receipts of the batch from `from` on, that are still to be inserted. */
struct range {
    size_t from;
    size_t count;
};

struct sql {
    struct sink *sink;
    struct ev_loop *loop;
    struct stats *stats;
    enum sql_state state;
    struct postgres_session session;
    struct backoff backoff;
    ev_timer timer; /* CLOSED: the next attempt; otherwise the time limit; IDLE: not active */
    bool was_lost;  /* a failure was logged, and not yet its end */
    struct throttle warning;
    char position[POSITION_MAX];
    struct sink_batch *batch;        /* in WRITING */
    struct range ranges[RANGES_MAX]; /* a stack; the last one is being inserted */
    size_t range_count;
    struct buffer array;
    /* of the running command: */
    bool has_row;
    bool is_read_only;
    bool is_bad; /* the server rejected the values */
    char error[256];
    char sqlstate[8];
};

const char *
sink_sql_conninfo(const struct config *config)
{
    if (config->receipts.conninfo != NULL)
        return config->receipts.conninfo;
    return config->feed.primary_conninfo != NULL ? config->feed.primary_conninfo
                                                 : config->feed.conninfo;
}

static void
set_timer(struct sql *sql, double after_s)
{
    ev_timer_stop(sql->loop, &sql->timer);
    if (after_s <= 0)
        return;
    ev_timer_set(&sql->timer, after_s, 0.);
    ev_timer_start(sql->loop, &sql->timer);
}

/* ---- failures */

static const char *
hint_of(const char *sqlstate, const char *error)
{
    if (strstr(error, "read-only") != NULL || strstr(error, "recovery") != NULL)
        return "[receipts] conninfo must name the primary";
    if (sqlstate != NULL && (strcmp(sqlstate, "42P01") == 0 || strcmp(sqlstate, "3F000") == 0))
        return "create or update the extension clairon in this database";
    if (sqlstate != NULL && strcmp(sqlstate, "42501") == 0)
        return "grant clairon_relay to the role of [receipts] conninfo";
    return postgres_error_hint(sqlstate, error);
}

static void
fail(struct sql *sql, const char *what, const char *sqlstate, const char *error)
{
    int64_t delay_ms = backoff_next_ms(&sql->backoff);
    const char *hint = hint_of(sqlstate, error);
    unsigned skipped = 0;

    sink_failed(sql->sink, what, error);
    if (throttle_allows(&sql->warning, clock_monotonic_us(), &skipped))
        log_warn("sink", what, LOG_TEXT("sink", sql->sink->kind->name),
                 LOG_TEXT("sqlstate", sqlstate), LOG_TEXT("error", error),
                 LOG_INT("retry_ms", delay_ms), LOG_TEXT("hint", *hint != '\0' ? hint : NULL),
                 LOG_UINT("suppressed", skipped));
    sql->was_lost = true;
    sql->batch = NULL;
    sql->range_count = 0;
    postgres_session_close(&sql->session);
    sql->state = SQL_CLOSED;
    set_timer(sql, (double)delay_ms / 1e3);
    sink_pause(sql->sink);
}

/* ---- inserting */

static void
insert_range(struct sql *sql)
{
    const struct range *range = &sql->ranges[sql->range_count - 1];
    const struct sink_receipt *receipt = sql->batch->receipts;
    const char *parameters[1];
    enum rc rc;

    buffer_clear(&sql->array);
    for (size_t i = 0; i < range->from; i++)
        receipt = receipt->next;
    rc = buffer_add(&sql->array, "[", 1);
    for (size_t i = 0; i < range->count && rc == RC_OK; i++, receipt = receipt->next) {
        if (i > 0)
            rc = buffer_add(&sql->array, ",", 1);
        if (rc == RC_OK)
            rc = buffer_add(&sql->array, receipt->data.at, receipt->data.len);
    }
    if (rc == RC_OK)
        rc = buffer_add(&sql->array, "]", 1);
    sql->is_bad = rc != RC_OK;
    sql->has_row = false;
    sql->error[0] = sql->sqlstate[0] = '\0';
    parameters[0] = rc == RC_OK ? sql->array.bytes : "[]";
    set_timer(sql, TIMEOUT_S);
    postgres_session_send_rows(&sql->session, STATEMENT_INSERT, parameters, 1);
}

static void
send_batch(void *ctx, struct sink_batch *batch)
{
    struct sql *sql = ctx;

    sql->state = SQL_WRITING;
    sql->batch = batch;
    sql->ranges[0] = (struct range){0, batch->count};
    sql->range_count = 1;
    insert_range(sql);
}

/* Drops a receipt that PostgreSQL does not accept: it would be rejected each time. */
static void
reject(struct sql *sql, size_t number)
{
    const struct sink_receipt *receipt = sql->batch->receipts;

    while (number-- > 0)
        receipt = receipt->next;
    stats_add(sql->stats, STAT_SINK_SQL_REJECTED, 1);
    log_error("sink", "could not insert a receipt, dropping it",
              LOG_TEXT("sink", sql->sink->kind->name),
              LOG_BYTES("receipt", (const char *)receipt->id.at, receipt->id.len),
              LOG_TEXT("sqlstate", sql->sqlstate), LOG_TEXT("error", sql->error));
}

/* Finds the receipts that were rejected: inserts the halves of the range separately. */
static void
split_range(struct sql *sql)
{
    const struct range range = sql->ranges[--sql->range_count];
    const size_t half = range.count / 2;

    if (range.count == 1) {
        reject(sql, range.from);
        return;
    }
    sql->ranges[sql->range_count++] = (struct range){range.from + half, range.count - half};
    sql->ranges[sql->range_count++] = (struct range){range.from, half};
}

static void
end_insert(struct sql *sql)
{
    struct sink_batch *batch = sql->batch;

    if (sql->is_bad)
        split_range(sql);
    else
        sql->range_count--;
    if (sql->range_count > 0) {
        insert_range(sql);
        return;
    }
    backoff_reset(&sql->backoff);
    if (sql->was_lost)
        log_info("sink", "sink takes receipts again", LOG_TEXT("sink", sql->sink->kind->name));
    sql->was_lost = false;
    sql->state = SQL_IDLE;
    sql->batch = NULL;
    set_timer(sql, 0);
    sink_batch_done(batch);
}

/* ---- the session */

static const char *
session_setup(void *ctx)
{
    (void)ctx;
    return "SET statement_timeout = '30s'; SET search_path = pg_catalog, pg_temp;"
           " SET client_encoding = 'UTF8'; SET application_name = 'clairon sink'";
}

static void
on_session_ready(void *ctx)
{
    struct sql *sql = ctx;

    sql->has_row = sql->is_bad = false;
    sql->error[0] = sql->sqlstate[0] = '\0';
    postgres_session_send_rows(&sql->session, QUERY_POSITION, NULL, 0);
}

/* Data exceptions and violated constraints are of a single receipt. */
static bool
is_of_values(const char *sqlstate)
{
    return strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "23", 2) == 0 ||
           strncmp(sqlstate, "54", 2) == 0;
}

static void
on_session_error(void *ctx, const PGresult *result)
{
    struct sql *sql = ctx;
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    /* without the detail, which may contain the row */
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    snprintf(sql->error, sizeof(sql->error), "%s",
             message != NULL ? message : postgres_error_line(PQresultErrorMessage(result)));
    snprintf(sql->sqlstate, sizeof(sql->sqlstate), "%s", sqlstate != NULL ? sqlstate : "");
    sql->is_bad = sql->state == SQL_WRITING && is_of_values(sql->sqlstate);
}

static void
on_session_row(void *ctx, const PGresult *row)
{
    struct sql *sql = ctx;
    const char *text = PQgetvalue(row, 0, 1);
    size_t len = strlen(sql->position);

    sql->has_row = true;
    if (sql->state == SQL_OPENING) {
        sql->is_read_only = strcmp(PQgetvalue(row, 0, 0), "t") == 0;
        snprintf(sql->position, sizeof(sql->position), "%s", text);
    } else if (strlen(text) == LSN_DIGITS && len > LSN_DIGITS) {
        memcpy(sql->position + len - LSN_DIGITS, text, LSN_DIGITS);
    }
}

static void
on_session_done(void *ctx)
{
    struct sql *sql = ctx;

    if (sql->error[0] != '\0' && !sql->is_bad)
        fail(sql,
             sql->state == SQL_WRITING ? "could not insert receipts"
                                       : "could not query the position of the primary",
             sql->sqlstate, sql->error);
    else if (sql->state == SQL_WRITING)
        end_insert(sql);
    else if (sql->is_read_only || !sql->has_row)
        fail(sql, "could not insert receipts", NULL, "server is in recovery or read-only");
    else {
        sql->state = SQL_IDLE;
        set_timer(sql, 0);
        sink_resume(sql->sink, sql->position);
    }
}

static void
on_session_lost(void *ctx, const char *message)
{
    struct sql *sql = ctx;

    fail(sql,
         sql->state == SQL_OPENING ? "could not connect to the primary"
                                   : "connection to the primary lost",
         NULL, message);
}

static const struct postgres_session_events SESSION_EVENTS = {
    .component = "sink",
    .setup = session_setup,
    .on_ready = on_session_ready,
    .on_rows = on_session_row,
    .on_error = on_session_error,
    .on_done = on_session_done,
    .on_lost = on_session_lost,
};

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct sql *sql = timer->data;

    (void)loop;
    (void)events;
    if (sql->state != SQL_CLOSED) {
        fail(sql, "no reply from the primary", NULL, "timeout expired");
        return;
    }
    sql->state = SQL_OPENING;
    set_timer(sql, TIMEOUT_S);
    postgres_session_open(&sql->session, NULL);
}

/* ---- start and end */

static void
stop(void *ctx)
{
    struct sql *sql = ctx;

    ev_timer_stop(sql->loop, &sql->timer);
    postgres_session_free(&sql->session);
}

static void
free_sql(void *ctx)
{
    struct sql *sql = ctx;

    buffer_free(&sql->array);
    free(sql);
}

static const struct sink_kind SQL = {
    .name = "sql",
    .group = "sql",
    .metrics = {STAT_SINK_SQL_BACKLOG, STAT_SINK_SQL_OLDEST, STAT_SINK_SQL_RECEIPTS,
                STAT_SINK_SQL_FAILURES, STAT_SINK_SQL_SUCCESS, STAT_SINK_SQL_DROPPED},
    .send = send_batch,
    .stop = stop,
    .free = free_sql,
};

struct sink *
sink_sql_open(struct ev_loop *loop, const struct config *config, struct store *store,
              struct stats *stats, struct sink_report *report)
{
    const struct sink_limits limits = {BATCH_RECEIPTS, BATCH_BYTES, 1};
    struct sql *sql = memory_new(sizeof(*sql));

    sql->loop = loop;
    sql->stats = stats;
    sql->sink = sink_new(loop, config, store, stats, report, &SQL, &limits, sql);
    sql->backoff = (struct backoff){.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    buffer_init(&sql->array, ARRAY_BYTES_MAX);
    sql->session.connect.loop = loop;
    sql->session.connect.conninfo = sink_sql_conninfo(config);
    sql->session.events = &SESSION_EVENTS;
    sql->session.ctx = sql;
    ev_init(&sql->timer, on_timer);
    sql->timer.data = sql;
    set_timer(sql, 0.001);
    return sql->sink;
}
