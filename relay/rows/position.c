/*
 * position.c: queries how transactions have ended, and a WAL position behind all visible commits.
 * One query at a time, over a separate connection, serves all requests that wait: slow queries for
 * rows do not delay it.
 */
#include "rows/rows_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "postgres/libpq.h"

#define SECOND_US INT64_C(1000000)
#define AGAIN_US (SECOND_US / 20) /* until a transaction that runs is asked for again */
#define RETRY_BASE_MS 100
#define RETRY_CAP_MS 5000
#define REQUESTS_MAX 65536
#define XIDS_MAX 1000 /* in one query; further requests wait for the next query */
#define XIDS_TEXT_MAX (XIDS_MAX * 21)
#define TICK_S 0.02
#define IDLE_US (60 * SECOND_US)
#define TIMEOUT_GRACE_US SECOND_US

/* Outcomes of clairon.live_position (decoder/sql/position.c). */
#define COMMITTED 'c'
#define ROLLED_BACK 'r'
#define FORGOTTEN 'f'
#define UNASSIGNED 'u'

static const char QUERY[] = "SELECT clairon.live_position($1)";

/*
 * A request is in one of the lists. In `queried` it is part of the query that runs. Requests
 * without a transaction, and those with the same transaction, share an outcome.
 */
struct rows_position_request {
    struct rows_positions *positions;
    struct rows_position_request *prev; /* links of `waiting` or `queried` */
    struct rows_position_request *next;
    rows_position_known *done;
    void *ctx;
    uint64_t xid;
    int64_t deadline_us;
    int64_t not_before_us; /* earliest time of the next query */
    bool is_queried;
    int index; /* while queried: of its outcome; -1: no transaction */
};

struct rows_positions {
    struct ev_loop *loop;
    const struct config *config;
    struct postgres_session session;
    bool is_opening;
    int64_t since_us; /* start of the attempt or of the query, or of the idle time; monotonic */
    int64_t retry_us; /* earliest time to connect; monotonic */
    struct backoff backoff;
    struct throttle warnings;
    struct rows_position_request *waiting; /* utlist, oldest first */
    struct rows_position_request *queried; /* utlist */
    size_t count;
    struct rows_position result; /* of the running query */
    char outcomes[XIDS_MAX + 1];
    bool has_result;
    ev_timer tick;
    ev_timer soon;
};

/* ---- requests */

static void
run_soon(struct rows_positions *positions)
{
    if (ev_is_active(&positions->soon))
        return;
    ev_timer_set(&positions->soon, 0, 0);
    ev_timer_start(positions->loop, &positions->soon);
}

static void
remove_request(struct rows_position_request *request)
{
    struct rows_positions *positions = request->positions;

    if (request->is_queried)
        DL_DELETE(positions->queried, request);
    else
        DL_DELETE(positions->waiting, request);
    positions->count--;
    free(request);
}

struct rows_position_request *
positions_start(struct rows_positions *positions, uint64_t xid, int64_t deadline_us,
                rows_position_known *done, void *ctx)
{
    struct rows_position_request *request;

    if (positions->count >= REQUESTS_MAX)
        return NULL;
    request = memory_new(sizeof(*request));
    *request = (struct rows_position_request){
        .positions = positions, .done = done, .ctx = ctx, .xid = xid, .deadline_us = deadline_us};
    DL_APPEND(positions->waiting, request);
    positions->count++;
    run_soon(positions);
    return request;
}

void
rows_position_end(struct rows_position_request *request)
{
    if (request != NULL)
        remove_request(request);
}

/* The callback may start and end other requests. */
static void
complete(struct rows_position_request *request, enum rows_status status,
         const struct rows_position *position)
{
    rows_position_known *done = request->done;
    void *ctx = request->ctx;

    remove_request(request);
    done(ctx, status, position);
}

static void
wait_again(struct rows_position_request *request, int64_t not_before_us)
{
    struct rows_positions *positions = request->positions;

    DL_DELETE(positions->queried, request);
    DL_APPEND(positions->waiting, request);
    request->is_queried = false;
    request->not_before_us = not_before_us;
}

/* ---- the query */

/* Adds a request to the query. Its transaction is at the end of `xids` or new. False: full. */
static bool
add_to_query(struct rows_position_request *request, uint64_t *xids, int *count)
{
    int index = -1;

    if (request->xid != 0) {
        for (index = *count - 1; index >= 0 && xids[index] != request->xid; index--)
            ;
        if (index < 0 && *count == XIDS_MAX)
            return false;
        if (index < 0) {
            index = (*count)++;
            xids[index] = request->xid;
        }
    }
    DL_DELETE(request->positions->waiting, request);
    DL_APPEND(request->positions->queried, request);
    request->is_queried = true;
    request->index = index;
    return true;
}

static void
send_query(struct rows_positions *positions, int64_t now_us)
{
    static char text[XIDS_TEXT_MAX];
    static uint64_t xids[XIDS_MAX];
    const char *const parameters[] = {text};
    struct rows_position_request *request, *next;
    size_t len = 0;
    int count = 0;

    DL_FOREACH_SAFE (positions->waiting, request, next) {
        if (request->not_before_us <= now_us && !add_to_query(request, xids, &count))
            break;
    }
    if (positions->queried == NULL)
        return;
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%" PRIu64, i > 0 ? "," : "",
                                xids[i]);
    positions->has_result = false;
    positions->since_us = now_us;
    postgres_session_send_rows(&positions->session, QUERY, parameters, 1);
}

/* Parses timeline:position:outcomes. */
static void
on_row(void *ctx, const PGresult *row)
{
    struct rows_positions *positions = ctx;
    const char *text;
    char *end;
    unsigned long timeline;
    unsigned long long lsn;

    if (PQnfields(row) != 1 || PQgetisnull(row, 0, 0) != 0)
        return;
    text = PQgetvalue(row, 0, 0);
    timeline = strtoul(text, &end, 10);
    if (end == text || *end != ':' || timeline > UINT32_MAX)
        return;
    text = end + 1;
    lsn = strtoull(text, &end, 10);
    if (end == text || *end != ':')
        return;
    positions->result = (struct rows_position){.timeline = (uint32_t)timeline, .lsn = lsn};
    snprintf(positions->outcomes, sizeof(positions->outcomes), "%s", end + 1);
    positions->has_result = true;
}

static void
on_error(void *ctx, const PGresult *error)
{
    struct rows_positions *positions = ctx;
    unsigned skipped = 0;

    if (throttle_allows(&positions->warnings, clock_monotonic_us(), &skipped))
        log_warn("rows", "could not read the WAL position",
                 LOG_TEXT("sqlstate", PQresultErrorField(error, PG_DIAG_SQLSTATE)),
                 LOG_TEXT("error", postgres_error_line(PQresultErrorMessage(error))),
                 LOG_UINT("suppressed", skipped));
}

/* False: its transaction has not ended. */
static bool
read_outcome(const struct rows_positions *positions, const struct rows_position_request *request,
             enum rows_outcome *ret_outcome)
{
    const char letter = request->index < 0 ? FORGOTTEN : positions->outcomes[request->index];

    *ret_outcome = letter == COMMITTED     ? ROWS_OUTCOME_COMMITTED
                   : letter == ROLLED_BACK ? ROWS_OUTCOME_ROLLED_BACK
                   : letter == UNASSIGNED  ? ROWS_OUTCOME_UNASSIGNED
                                           : ROWS_OUTCOME_NONE;
    return *ret_outcome != ROWS_OUTCOME_NONE || letter == FORGOTTEN;
}

/* Callbacks may end requests, so the first queried request is handled until none is left. */
static void
on_done(void *ctx)
{
    struct rows_positions *positions = ctx;
    const int64_t now_us = clock_monotonic_us();
    struct rows_position position = positions->result;
    struct rows_position_request *request;

    positions->since_us = now_us;
    while ((request = positions->queried) != NULL) {
        if (!positions->has_result || !read_outcome(positions, request, &position.outcome))
            wait_again(request, now_us + AGAIN_US);
        else
            complete(request, ROWS_OK, &position);
    }
    run_soon(positions);
}

/* ---- the connection */

static const char *
session_setup(void *ctx)
{
    static char setup[128];
    const struct rows_positions *positions = ctx;

    snprintf(setup, sizeof(setup),
             "SET statement_timeout = %" PRId64 "; SET default_transaction_read_only = on",
             positions->config->rows.timeout_ms);
    return setup;
}

static void
on_ready(void *ctx)
{
    struct rows_positions *positions = ctx;

    backoff_reset(&positions->backoff);
    positions->is_opening = false;
    positions->since_us = clock_monotonic_us();
    run_soon(positions);
}

static void
on_lost(void *ctx, const char *message)
{
    struct rows_positions *positions = ctx;
    const int64_t now_us = clock_monotonic_us();
    const bool is_idle = !positions->is_opening && positions->queried == NULL;
    int64_t delay_ms;

    positions->is_opening = false;
    positions->since_us = now_us;
    while (positions->queried != NULL)
        wait_again(positions->queried, now_us);
    if (is_idle)
        return; /* the server restarted, or closed the idle session */
    delay_ms = backoff_next_ms(&positions->backoff);
    positions->retry_us = now_us + delay_ms * 1000;
    log_warn("rows", "PostgreSQL connection for barriers lost", LOG_TEXT("error", message),
             LOG_INT("retry_ms", delay_ms));
}

static const struct postgres_session_events SESSION_EVENTS = {
    .component = "rows",
    .setup = session_setup,
    .on_ready = on_ready,
    .on_rows = on_row,
    .on_error = on_error,
    .on_done = on_done,
    .on_lost = on_lost,
};

static void
close_session(struct rows_positions *positions, const char *reason)
{
    postgres_session_close(&positions->session);
    on_lost(positions, reason);
}

static void
run(struct rows_positions *positions, int64_t now_us)
{
    if (positions->waiting == NULL)
        return;
    if (positions->session.is_ready && !positions->session.is_busy) {
        send_query(positions, now_us);
    } else if (positions->session.conn == NULL && !positions->is_opening &&
               now_us >= positions->retry_us) {
        positions->is_opening = true;
        positions->since_us = now_us;
        postgres_session_open(&positions->session, NULL);
    }
}

static void
sweep(struct rows_positions *positions, int64_t now_us)
{
    const int64_t max_us = positions->config->rows.timeout_ms * 1000 + TIMEOUT_GRACE_US;
    const int64_t age_us = now_us - positions->since_us;

    if (positions->is_opening || positions->queried != NULL) {
        if (age_us > max_us)
            close_session(positions, "timeout expired");
    } else if (positions->session.conn != NULL && age_us > IDLE_US) {
        postgres_session_close(&positions->session);
    }
}

/* Ends requests that have waited too long. A query that runs may still serve the others. */
static void
expire(struct rows_positions *positions, int64_t now_us)
{
    struct rows_position_request *request;
    bool is_left = true;

    while (is_left) {
        is_left = false;
        DL_FOREACH (positions->waiting, request) {
            is_left = request->deadline_us <= now_us;
            if (is_left)
                break;
        }
        if (!is_left) {
            DL_FOREACH (positions->queried, request) {
                is_left = request->deadline_us <= now_us;
                if (is_left)
                    break;
            }
        }
        if (is_left)
            complete(request, positions->session.is_ready ? ROWS_BUSY : ROWS_LOST, NULL);
    }
}

static void
set_tick(struct rows_positions *positions)
{
    const bool is_open = positions->session.conn != NULL || positions->is_opening;
    const double every_s = positions->count > 0 ? TICK_S : 1.0;

    if (positions->count == 0 && !is_open) {
        ev_timer_stop(positions->loop, &positions->tick);
        return;
    }
    if (ev_is_active(&positions->tick) && positions->tick.repeat == every_s)
        return;
    positions->tick.repeat = every_s;
    ev_timer_again(positions->loop, &positions->tick);
}

static void
on_soon(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct rows_positions *positions = timer->data;

    (void)loop;
    (void)events;
    run(positions, clock_monotonic_us());
    set_tick(positions);
}

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct rows_positions *positions = timer->data;
    const int64_t now_us = clock_monotonic_us();

    (void)loop;
    (void)events;
    sweep(positions, now_us);
    expire(positions, now_us);
    run(positions, now_us);
    set_tick(positions);
}

struct rows_positions *
positions_open(struct ev_loop *loop, const struct config *config, const char *conninfo)
{
    struct rows_positions *positions = memory_new(sizeof(*positions));

    positions->loop = loop;
    positions->config = config;
    positions->backoff = (struct backoff){.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    positions->session.connect.loop = loop;
    positions->session.connect.conninfo = conninfo;
    positions->session.events = &SESSION_EVENTS;
    positions->session.ctx = positions;
    ev_init(&positions->soon, on_soon);
    ev_init(&positions->tick, on_tick);
    positions->soon.data = positions->tick.data = positions;
    return positions;
}

void
positions_close(struct rows_positions *positions)
{
    ev_timer_stop(positions->loop, &positions->soon);
    ev_timer_stop(positions->loop, &positions->tick);
    postgres_session_free(&positions->session);
    free(positions);
}
