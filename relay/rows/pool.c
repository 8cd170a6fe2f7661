/*
 * pool.c: reads rows: runs the queries of the queue over a few connections, without blocking the
 * loop. At its end, what rows.h offers.
 */
#include "rows/rows_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

#define SECOND_US INT64_C(1000000)
#define RECONNECT_BASE_MS 250
#define RECONNECT_CAP_MS 10000
#define IDLE_US (60 * SECOND_US)
#define OPENING_US (10 * SECOND_US)
#define TIMEOUT_GRACE_US (1 * SECOND_US) /* extra time in which the server can cancel a query */
#define LOCK_TIMEOUT_MS "10"
#define SETUP_MAX 512
#define BUSY_TICK_S 0.02 /* while requests wait or queries run */
#define IDLE_TICK_S 1.0  /* while connections are open, or clients read results */

/*
 * CLOSED: not connected. Opened when a query waits and no connection is IDLE; only one at a time,
 * and not before reconnect_us. Next: OPENING.
 *
 * OPENING: connects, and sets up the session. Next: IDLE; CLOSED on an error or a timeout.
 *
 * IDLE: waits for a query. Next: RUNNING; CLOSED after a minute, or if the server closes it.
 *
 * RUNNING: a query runs. The server cancels it after rows.timeout. Next: IDLE; CLOSED if the
 * connection is lost; STUCK if the server does not cancel the query in time.
 *
 * STUCK: the requests of the query have ended, but the server still runs it. The connection stays
 * open, because closing it does not stop a backend that ignores interrupts, and a new connection
 * would add a backend. Next: IDLE when the query ends; CLOSED when the backend ends.
 */
enum connection_state {
    ROWS_CONNECTION_CLOSED,
    ROWS_CONNECTION_OPENING,
    ROWS_CONNECTION_IDLE,
    ROWS_CONNECTION_RUNNING,
    ROWS_CONNECTION_STUCK
};

struct rows_connection {
    struct rows_pool *pool;
    enum connection_state state;
    int64_t since_us; /* start of the state; monotonic */
    struct postgres_session session;
    struct rows_query *query;   /* the query in RUNNING and STUCK */
    struct rows_result *result; /* in RUNNING: the rows received so far */
    enum rows_status status;    /* in RUNNING: status of the results so far */
    bool has_conditions;        /* of the query */
};

struct rows_pool {
    struct ev_loop *loop;
    const struct config *config;
    struct stats *stats;
    struct rows_queue *queue;
    ev_timer soon; /* runs pool_run */
    ev_timer tick; /* ends what is overdue, and runs pool_run */
    struct rows_connection *connections;
    int count;
    struct backoff backoff;
    int64_t reconnect_us; /* earliest time to reconnect; monotonic */
    size_t held_bytes;    /* total size of results in memory */
    struct throttle warnings;
    struct throttle denials;
};

static const char QUERY[] =
    "SELECT clairon.live_rows($1, $2, $3, $4::jsonb, $5::integer, $6::bigint, $7::jsonb,"
    " CASE WHEN $8::text IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text($8::jsonb)) END,"
    " $9::jsonb, $10::integer, $11::boolean)";

static void
set_state(struct rows_connection *connection, enum connection_state state)
{
    connection->state = state;
    connection->since_us = clock_monotonic_us();
}

/* Runs queries in the next loop iteration. */
static void
pool_run_soon(struct rows_pool *pool)
{
    if (ev_is_active(&pool->soon))
        return;
    ev_timer_set(&pool->soon, 0, 0);
    ev_timer_start(pool->loop, &pool->soon);
}

/* ---- queries */

/* Detaches the query. The caller completes, fails or requeues it. */
static struct rows_query *
detach_query(struct rows_connection *connection, enum connection_state next,
             struct rows_result **ret_result)
{
    struct rows_query *query = connection->query;

    *ret_result = connection->result;
    connection->query = NULL;
    connection->result = NULL;
    set_state(connection, next);
    pool_run_soon(connection->pool);
    return query;
}

/* ---- overdue queries */

static void
abandon_query(struct rows_connection *connection)
{
    const char *source = connection->query->key;

    log_warn("rows", "PostgreSQL did not end a query in time", LOG_TEXT("source", source),
             LOG_TEXT("rule", source + strlen(source) + 1),
             LOG_INT("pid", PQbackendPID(connection->session.conn)));
    rows_result_unref(connection->result);
    connection->result = NULL;
    set_state(connection, ROWS_CONNECTION_STUCK);
    rows_queue_abandon(connection->pool->queue, connection->query);
}

static void
end_stuck_query(struct rows_connection *connection, enum connection_state next)
{
    int64_t stuck_us = clock_monotonic_us() - connection->since_us;

    log_info("rows", "overdue query ended", LOG_TEXT("source", connection->query->key),
             LOG_INT("after_ms", stuck_us / 1000));
    rows_queue_release(connection->pool->queue, connection->query);
    connection->query = NULL;
    set_state(connection, next);
    pool_run_soon(connection->pool);
}

/* ---- results */

/* Returns the hint for an error; NULL: no hint. Both arguments may be NULL. */
static const char *
hint_of(const char *sqlstate, const char *error)
{
    const char *hint = error != NULL ? postgres_error_hint(sqlstate, error) : "";

    return hint[0] != '\0' ? hint : NULL;
}

static void
warn(struct rows_connection *connection, const char *what, const char *sqlstate, const char *error)
{
    unsigned skipped = 0;

    if (!throttle_allows(&connection->pool->warnings, clock_monotonic_us(), &skipped))
        return;
    log_warn("rows", what, LOG_TEXT("sqlstate", sqlstate), LOG_TEXT("error", error),
             LOG_TEXT("hint", hint_of(sqlstate, error)), LOG_UINT("suppressed", skipped));
}

static void
on_session_row(void *ctx, const PGresult *row)
{
    struct rows_connection *connection = ctx;
    enum rc rc = RC_BAD;

    if (connection->state == ROWS_CONNECTION_STUCK || connection->status != ROWS_OK)
        return;
    if (PQnfields(row) == 1 && PQgetisnull(row, 0, 0) == 0)
        rc = rows_result_add(connection->result, PQgetvalue(row, 0, 0),
                             (size_t)PQgetlength(row, 0, 0));
    if (rc == RC_LIMIT) {
        connection->status = ROWS_TOO_MANY;
    } else if (rc != RC_OK) {
        warn(connection, "invalid row from clairon.live_rows()", NULL, NULL);
        connection->status = ROWS_FAILED;
    }
}

/*
 * A condition has a character that the encoding of the database lacks. PostgreSQL names the
 * parameter, unless the character is escaped.
 */
static void
name_field(struct rows_result *result, const PGresult *error)
{
    static const char *const fields[] = {[7] = "where", [8] = "order", [9] = "after"};
    const char *context = PQresultErrorField(error, PG_DIAG_CONTEXT);
    const char *parameter = context != NULL ? strchr(context, '$') : NULL;
    long number = parameter != NULL ? strtol(parameter + 1, NULL, 10) : 0;
    char text[ROWS_HEADER_ERROR_MAX];

    if (number < 7 || number > 9 || result->has_header)
        return;
    snprintf(text, sizeof(text), "character in \"%s\" is not in the encoding of the database",
             fields[number]);
    result->header.error = GATE_ERR_BAD_REQUEST;
    result->header.error_text = memory_text(text, strlen(text));
}

static void
on_session_error(void *ctx, const PGresult *result)
{
    struct rows_connection *connection = ctx;
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *error = postgres_error_line(PQresultErrorMessage(result));

    if (connection->state == ROWS_CONNECTION_STUCK)
        return;
    connection->status = rows_status_of(sqlstate);
    if (connection->status == ROWS_DENIED && connection->has_conditions) {
        connection->status = ROWS_INVALID;
        name_field(connection->result, result);
    }
    if (connection->status == ROWS_DENIED || connection->status == ROWS_INVALID)
        log_debug("rows", "request rejected", LOG_TEXT("error", error));
    else if (connection->status != ROWS_LOST && connection->status != ROWS_LOCKED) /* repeated */
        warn(connection, "could not read rows", sqlstate, error);
}

/* Names the column, which the client may not learn: a renamed column empties its lists. */
static void
log_denied_column(struct rows_pool *pool, const struct rows_query *query,
                  const struct rows_header *header)
{
    unsigned skipped = 0;

    if (header->error != GATE_ERR_PERMISSION ||
        !throttle_allows(&pool->denials, clock_monotonic_us(), &skipped))
        return;
    log_warn("rows", "request for rows denied", LOG_TEXT("source", query->key),
             LOG_TEXT("rule", query->key + strlen(query->key) + 1),
             LOG_TEXT("error", header->error_text),
             LOG_TEXT("hint", "set filter_columns of the rule, or correct the page: it may use the "
                              "old name of a column"),
             LOG_UINT("suppressed", skipped));
}

static enum rows_status
status_of_header(const struct rows_result *result)
{
    if (!result->has_header)
        return ROWS_DENIED; /* no live rule addresses the user (sql/rows.sql) */
    switch (result->header.error) {
    case 0:
        return ROWS_OK;
    case GATE_ERR_BAD_REQUEST:
        return ROWS_INVALID;
    default:
        return ROWS_DENIED;
    }
}

static void
on_session_done(void *ctx)
{
    struct rows_connection *connection = ctx;
    struct rows_queue *queue = connection->pool->queue;
    enum rows_status status = connection->status;
    int64_t now_us = clock_monotonic_us();
    int64_t elapsed_us = now_us - connection->since_us;
    struct rows_result *result;
    struct rows_query *query;

    if (connection->state == ROWS_CONNECTION_STUCK) {
        end_stuck_query(connection, ROWS_CONNECTION_IDLE);
        return;
    }
    query = detach_query(connection, ROWS_CONNECTION_IDLE, &result);
    if (status == ROWS_LOCKED) {
        rows_queue_postpone(queue, query, now_us);
    } else if (status == ROWS_LOST) {
        rows_queue_repeat(queue, query, now_us);
    } else {
        stats_time(connection->pool->stats, TIME_ROWS, elapsed_us);
        rows_queue_measure(queue, elapsed_us);
        if (status == ROWS_OK)
            status = status_of_header(result);
        log_denied_column(connection->pool, query, &result->header);
        if (status == ROWS_OK)
            rows_queue_complete(queue, query, result, now_us);
        else
            rows_queue_fail(queue, query, status, result->header.error != 0 ? result : NULL,
                            now_us);
    }
    rows_result_unref(result);
}

static void
run_query(struct rows_connection *connection, struct rows_query *query)
{
    const struct config *config = connection->pool->config;
    const struct rows_wanted *wanted = rows_query_wanted(query);
    const struct rows_conditions *conditions = &wanted->conditions;
    char max_rows[24], max_bytes[24], limit[24];
    const char *parameters[] = {wanted->source,
                                wanted->rule,
                                wanted->user,
                                wanted->groups,
                                max_rows,
                                max_bytes,
                                conditions->where,
                                conditions->order,
                                conditions->after,
                                conditions->limit != 0 ? limit : NULL,
                                conditions->is_count ? "true" : "false"};

    snprintf(limit, sizeof(limit), "%" PRId64, conditions->limit);
    snprintf(max_rows, sizeof(max_rows), "%d", config->rows.max_rows);
    snprintf(max_bytes, sizeof(max_bytes), "%" PRId64, config->rows.max_bytes);
    connection->query = query;
    connection->result =
        rows_result_new((size_t)config->rows.max_rows, (size_t)config->rows.max_bytes,
                        &connection->pool->held_bytes);
    connection->result->has_limit = conditions->limit != 0;
    connection->has_conditions = rows_conditions_exist(conditions);
    connection->status = ROWS_OK;
    set_state(connection, ROWS_CONNECTION_RUNNING);
    postgres_session_send_rows(&connection->session, QUERY, parameters,
                               sizeof(parameters) / sizeof(parameters[0]));
}

/* ---- connections */

/*
 * The server checks the connection every second, so that no query outlives the relay for long. A
 * table owner may keep tables locked: then the query waits in the queue, not on the server. The
 * session is read-only.
 */
static const char *
session_setup(void *ctx)
{
    static char setup[SETUP_MAX];
    const struct rows_connection *connection = ctx;

    snprintf(setup, sizeof(setup),
             "SET statement_timeout = %" PRId64 "; SET client_connection_check_interval = 1000;"
             " SET lock_timeout = " LOCK_TIMEOUT_MS "; SET default_transaction_read_only = on",
             connection->pool->config->rows.timeout_ms);
    return setup;
}

static void
on_session_ready(void *ctx)
{
    struct rows_connection *connection = ctx;

    backoff_reset(&connection->pool->backoff);
    set_state(connection, ROWS_CONNECTION_IDLE);
    pool_run_soon(connection->pool);
}

/* When a server restarts, all connections are lost simultaneously: one backoff applies to all. */
static void
delay_reconnect(struct rows_pool *pool, const char *what, const char *error)
{
    int64_t now_us = clock_monotonic_us();
    int64_t delay_ms;

    if (pool->reconnect_us > now_us)
        return;
    delay_ms = backoff_next_ms(&pool->backoff);
    pool->reconnect_us = now_us + delay_ms * 1000;
    log_warn("rows", what, LOG_TEXT("error", error), LOG_INT("retry_ms", delay_ms),
             LOG_TEXT("hint", hint_of(NULL, error)));
}

/* Also called during run_query and open_connection. */
static void
on_session_lost(void *ctx, const char *message)
{
    struct rows_connection *connection = ctx;
    struct rows_result *result;
    struct rows_query *query;

    switch (connection->state) {
    case ROWS_CONNECTION_CLOSED:
        return;
    case ROWS_CONNECTION_IDLE:
        /* the server restarted, or the server or a proxy closed the idle session */
        set_state(connection, ROWS_CONNECTION_CLOSED);
        log_debug("rows", "server closed an idle connection", LOG_TEXT("error", message));
        return;
    case ROWS_CONNECTION_STUCK:
        end_stuck_query(connection, ROWS_CONNECTION_CLOSED);
        return;
    case ROWS_CONNECTION_OPENING:
        delay_reconnect(connection->pool, "could not connect to PostgreSQL", message);
        set_state(connection, ROWS_CONNECTION_CLOSED);
        return;
    case ROWS_CONNECTION_RUNNING:
        delay_reconnect(connection->pool, "PostgreSQL connection lost", message);
        query = detach_query(connection, ROWS_CONNECTION_CLOSED, &result);
        rows_result_unref(result);
        rows_queue_repeat(connection->pool->queue, query, clock_monotonic_us());
        return;
    }
}

static const struct postgres_session_events SESSION_EVENTS = {
    .component = "rows",
    .setup = session_setup,
    .on_ready = on_session_ready,
    .on_rows = on_session_row,
    .on_error = on_session_error,
    .on_done = on_session_done,
    .on_lost = on_session_lost,
};

static struct rows_connection *
find_in_state(const struct rows_pool *pool, enum connection_state state)
{
    for (int i = 0; i < pool->count; i++) {
        if (pool->connections[i].state == state)
            return &pool->connections[i];
    }
    return NULL;
}

static void
open_connection(struct rows_pool *pool, int64_t now_us)
{
    struct rows_connection *closed = find_in_state(pool, ROWS_CONNECTION_CLOSED);

    if (closed == NULL || now_us < pool->reconnect_us ||
        find_in_state(pool, ROWS_CONNECTION_OPENING) != NULL)
        return;
    set_state(closed, ROWS_CONNECTION_OPENING);
    postgres_session_open(&closed->session, NULL);
}

/* Starts queries on idle connections, and opens a connection if none is idle. */
static void
pool_run(struct rows_pool *pool, int64_t now_us)
{
    size_t max_held = ROWS_HELD_MAX * (size_t)pool->config->rows.max_bytes;
    struct rows_connection *idle;
    struct rows_query *query;

    while (pool->held_bytes < max_held) {
        idle = find_in_state(pool, ROWS_CONNECTION_IDLE);
        if (idle == NULL) {
            if (rows_queue_has_next(pool->queue, now_us))
                open_connection(pool, now_us);
            return;
        }
        query = rows_queue_next(pool->queue, now_us);
        if (query == NULL)
            return;
        run_query(idle, query);
    }
}

static void
sweep_connection(struct rows_connection *connection, int64_t now_us)
{
    int64_t age_us = now_us - connection->since_us;
    int64_t max_us = connection->pool->config->rows.timeout_ms * 1000 + TIMEOUT_GRACE_US;

    switch (connection->state) {
    case ROWS_CONNECTION_CLOSED:
        return;
    case ROWS_CONNECTION_OPENING:
        if (age_us <= OPENING_US)
            return;
        postgres_session_close(&connection->session);
        on_session_lost(connection, "timeout expired");
        return;
    case ROWS_CONNECTION_IDLE:
        if (age_us <= IDLE_US)
            return;
        postgres_session_close(&connection->session);
        set_state(connection, ROWS_CONNECTION_CLOSED);
        return;
    case ROWS_CONNECTION_RUNNING:
        if (age_us <= max_us)
            return;
        abandon_query(connection);
        return;
    case ROWS_CONNECTION_STUCK:
        return;
    }
}

/* At least one session is set up. */
static bool
pool_is_connected(const struct rows_pool *pool)
{
    return find_in_state(pool, ROWS_CONNECTION_IDLE) != NULL ||
           find_in_state(pool, ROWS_CONNECTION_RUNNING) != NULL;
}

/* At least one connection is RUNNING or OPENING. */
static bool
pool_is_running(const struct rows_pool *pool)
{
    return find_in_state(pool, ROWS_CONNECTION_OPENING) != NULL ||
           find_in_state(pool, ROWS_CONNECTION_RUNNING) != NULL;
}

/* At least one connection is not CLOSED. */
static bool
pool_is_open(const struct rows_pool *pool)
{
    return find_in_state(pool, ROWS_CONNECTION_IDLE) != NULL ||
           find_in_state(pool, ROWS_CONNECTION_STUCK) != NULL || pool_is_running(pool);
}

/* ---- life */

static void
set_tick(struct rows_pool *pool)
{
    bool is_busy = pool->queue->waiting_count > 0 || pool_is_running(pool);
    double every_s = is_busy ? BUSY_TICK_S : IDLE_TICK_S;

    if (!is_busy && !pool_is_open(pool) && pool->held_bytes == 0) {
        ev_timer_stop(pool->loop, &pool->tick);
        return;
    }
    if (ev_is_active(&pool->tick) && pool->tick.repeat == every_s)
        return;
    pool->tick.repeat = every_s;
    ev_timer_again(pool->loop, &pool->tick);
}

static void
on_soon(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct rows_pool *pool = timer->data;

    (void)loop;
    (void)events;
    pool_run(pool, clock_monotonic_us());
    set_tick(pool);
}

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct rows_pool *pool = timer->data;
    int64_t now_us = clock_monotonic_us();

    (void)loop;
    (void)events;
    for (int i = 0; i < pool->count; i++)
        sweep_connection(&pool->connections[i], now_us);
    rows_queue_expire(pool->queue, pool_is_connected(pool) ? ROWS_BUSY : ROWS_LOST, now_us);
    pool_run(pool, now_us);
    stats_set(pool->stats, STAT_ROWS_HELD, pool->held_bytes);
    set_tick(pool);
}

/* Connects when a query waits. The arguments must outlive the pool. */
static struct rows_pool *
pool_open(struct ev_loop *loop, const struct config *config, const char *conninfo,
          struct rows_queue *queue)
{
    struct rows_pool *pool = memory_new(sizeof(*pool));

    *pool =
        (struct rows_pool){.loop = loop,
                           .config = config,
                           .stats = queue->stats,
                           .queue = queue,
                           .count = config->rows.connections,
                           .backoff = {.base_ms = RECONNECT_BASE_MS, .cap_ms = RECONNECT_CAP_MS}};
    ev_init(&pool->soon, on_soon);
    ev_init(&pool->tick, on_tick);
    pool->soon.data = pool->tick.data = pool;
    pool->connections = memory_new((size_t)pool->count * sizeof(*pool->connections));
    for (int i = 0; i < pool->count; i++) {
        struct rows_connection *connection = &pool->connections[i];

        connection->pool = pool;
        connection->session.connect.loop = loop;
        connection->session.connect.conninfo = conninfo;
        connection->session.events = &SESSION_EVENTS;
        connection->session.ctx = connection;
    }
    return pool;
}

/* Closes all connections without calling the callbacks of requests. */
static void
pool_close(struct rows_pool *pool)
{
    ev_timer_stop(pool->loop, &pool->soon);
    ev_timer_stop(pool->loop, &pool->tick);
    for (int i = 0; i < pool->count; i++) {
        struct rows_connection *connection = &pool->connections[i];

        postgres_session_free(&connection->session);
        if (connection->query != NULL)
            rows_queue_release(pool->queue, connection->query); /* the query has no requests left */
        rows_result_unref(connection->result);
    }
    free(pool->connections);
    free(pool);
}

/* ---- rows.h: the queue, the pool, and the positions */

struct rows {
    struct rows_queue queue;
    struct rows_pool *pool;
    struct rows_positions *positions;
};

struct rows *
rows_open(struct ev_loop *loop, const struct config *config, struct stats *stats)
{
    const char *conninfo =
        config->rows.conninfo != NULL ? config->rows.conninfo : config->feed.conninfo;
    struct rows *rows;

    if (conninfo == NULL)
        return NULL;
    rows = memory_new(sizeof(*rows));
    rows->queue = (struct rows_queue){
        .stats = stats,
        .limits = {.waiting = (size_t)config->rows.queue,
                   .wait_us = config->rows.timeout_ms * 1000,
                   .connections = (size_t)config->rows.connections,
                   .user_bytes = ROWS_HELD_PER_USER_MAX * (size_t)config->rows.max_bytes},
    };
    rows->pool = pool_open(loop, config, conninfo, &rows->queue);
    rows->positions = positions_open(loop, config, conninfo);
    return rows;
}

enum rows_status
rows_request_start(struct rows *rows, const struct rows_wanted *wanted,
                   const struct rows_events *events, void *ctx, struct rows_request **ret_request,
                   int64_t *ret_after_ms)
{
    enum rows_status status;

    if (rows == NULL)
        return ROWS_OFF;
    status = rows_queue_add(&rows->queue, wanted, events, ctx, clock_monotonic_us(), ret_request);
    if (status == ROWS_OK)
        /* identical requests of this loop iteration then share a query */
        pool_run_soon(rows->pool);
    else
        *ret_after_ms = rows_queue_after_ms(&rows->queue, status);
    return status;
}

struct rows_position_request *
rows_position_start(struct rows *rows, uint64_t xid, rows_position_known *done, void *ctx)
{
    return rows != NULL ? positions_start(rows->positions, xid, done, ctx) : NULL;
}

void
rows_close(struct rows *rows)
{
    if (rows == NULL)
        return;
    pool_close(rows->pool);
    positions_close(rows->positions);
    rows_queue_close(&rows->queue);
    free(rows);
}
