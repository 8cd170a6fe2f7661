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

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

#define SECOND_US INT64_C(1000000)
#define AGAIN_US (SECOND_US / 20) /* until a transaction that runs is asked for again */
#define RECONNECT_BASE_MS 100
#define RECONNECT_CAP_MS 5000
#define REQUESTS_MAX 65536
#define XIDS_MAX 1000 /* in one query; further requests wait for the next query */
#define XIDS_TEXT_MAX (XIDS_MAX * 21)
#define TICK_S 0.02
#define IDLE_US (60 * SECOND_US)
#define TIMEOUT_GRACE_US SECOND_US

/* Outcomes of clairon.live_position (decoder/sql/live_position.c). */
#define COMMITTED 'c'
#define ROLLED_BACK 'r'
#define FORGOTTEN 'f'
#define UNASSIGNED 'u'

static const char QUERY[] = "SELECT clairon.live_position($1)";

/*
 * The requests for one transaction share an outcome, and so do those without a transaction. A group
 * is freed when its last request has ended.
 *
 * READY: waits for the next query. A new request joins. Next: QUERIED.
 *
 * LATER: its transaction had not ended; waits until again_us. A new request joins, and makes it
 * READY. Next: READY.
 *
 * QUERIED: part of the query that runs, whose snapshot may be older than a new request: such a
 * request waits in another group. Next: LATER, or READY together with that group.
 */
enum group_state { GROUP_READY, GROUP_LATER, GROUP_QUERIED, GROUP_STATES };

struct position_group {
    UT_hash_handle hh;           /* in READY and LATER */
    struct position_group *prev; /* links of the list of its state */
    struct position_group *next;
    enum group_state state;
    uint64_t xid;                           /* 0: no transaction */
    struct rows_position_request *requests; /* utlist */
    int64_t again_us;                       /* in LATER */
    bool has_reply;                         /* the server knows that the transaction runs */
    int index;                              /* in QUERIED: of its outcome; -1: no transaction */
};

struct rows_position_request {
    struct rows_positions *positions;
    struct position_group *group;
    struct rows_position_request *prev; /* links of the group's list */
    struct rows_position_request *next;
    rows_position_known *done;
    void *ctx;
};

struct rows_positions {
    struct ev_loop *loop;
    const struct config *config;
    struct postgres_session session;
    bool is_opening;
    int64_t since_us;     /* start of the attempt or of the query, or of the idle time; monotonic */
    int64_t reconnect_us; /* earliest time to connect; monotonic */
    struct backoff backoff;
    struct throttle warnings;
    struct position_group *waiting;              /* uthash: READY and LATER groups */
    struct position_group *groups[GROUP_STATES]; /* utlists; LATER: by again_us */
    size_t count;                                /* number of requests */
    int xid_count;                               /* number of transactions in the running query */
    struct rows_position result;                 /* of the running query */
    char outcomes[XIDS_MAX + 1];
    bool has_result;
    enum rows_status status; /* ROWS_OK: the running query has returned no error */
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

static bool
is_waiting(const struct position_group *group)
{
    return group->state != GROUP_QUERIED;
}

/* Requests without a transaction precede the others, of which one query may not have them all. */
static void
add_group(struct rows_positions *positions, struct position_group *group, enum group_state state)
{
    group->state = state;
    if (is_waiting(group))
        HASH_ADD(hh, positions->waiting, xid, sizeof(group->xid), group);
    if (group->xid == 0)
        DL_PREPEND(positions->groups[state], group);
    else
        DL_APPEND(positions->groups[state], group);
}

static void
remove_group(struct rows_positions *positions, struct position_group *group)
{
    if (is_waiting(group))
        HASH_DELETE(hh, positions->waiting, group);
    DL_DELETE(positions->groups[group->state], group);
}

static void
move_group(struct rows_positions *positions, struct position_group *group, enum group_state state)
{
    remove_group(positions, group);
    add_group(positions, group, state);
}

static struct position_group *
find_waiting(struct rows_positions *positions, uint64_t xid)
{
    struct position_group *group;

    HASH_FIND(hh, positions->waiting, &xid, sizeof(xid), group);
    return group;
}

static void
remove_request(struct rows_position_request *request)
{
    struct rows_positions *positions = request->positions;
    struct position_group *group = request->group;

    DL_DELETE(group->requests, request);
    free(request);
    positions->count--;
    if (group->requests != NULL)
        return;
    remove_group(positions, group);
    free(group);
}

struct rows_position_request *
positions_start(struct rows_positions *positions, uint64_t xid, rows_position_known *done,
                void *ctx)
{
    struct rows_position_request *request;
    struct position_group *group;

    if (positions->count >= REQUESTS_MAX)
        return NULL;
    group = find_waiting(positions, xid);
    if (group == NULL) {
        group = memory_new(sizeof(*group));
        group->xid = xid;
        add_group(positions, group, GROUP_READY);
    } else if (group->state == GROUP_LATER) {
        move_group(positions, group, GROUP_READY);
    }
    request = memory_new(sizeof(*request));
    *request = (struct rows_position_request){
        .positions = positions, .group = group, .done = done, .ctx = ctx};
    DL_APPEND(group->requests, request);
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

enum rows_status
rows_position_wait(const struct rows_position_request *request)
{
    return request->group->has_reply ? ROWS_BUSY : ROWS_LOST;
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

/* Requests that came during the query do not wait, nor do the others of their transaction. */
static void
wait_again(struct rows_positions *positions, struct position_group *group, int64_t again_us)
{
    struct position_group *newer = find_waiting(positions, group->xid);
    struct rows_position_request *request;

    group->again_us = again_us;
    if (newer != NULL) {
        DL_FOREACH (newer->requests, request)
            request->group = group;
        DL_CONCAT(group->requests, newer->requests);
        remove_group(positions, newer);
        free(newer);
    }
    move_group(positions, group, newer != NULL ? GROUP_READY : GROUP_LATER);
}

/* ---- the query */

static void
send_query(struct rows_positions *positions, int64_t now_us)
{
    static char text[XIDS_TEXT_MAX];
    const char *const parameters[] = {text};
    struct position_group *group;
    size_t len = 0;

    text[0] = '\0';
    positions->xid_count = 0;
    while ((group = positions->groups[GROUP_LATER]) != NULL && group->again_us <= now_us)
        move_group(positions, group, GROUP_READY);
    while ((group = positions->groups[GROUP_READY]) != NULL && positions->xid_count < XIDS_MAX) {
        move_group(positions, group, GROUP_QUERIED);
        group->index = -1;
        if (group->xid == 0)
            continue;
        group->index = positions->xid_count++;
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%" PRIu64, len > 0 ? "," : "",
                                group->xid);
    }
    if (positions->groups[GROUP_QUERIED] == NULL)
        return;
    positions->has_result = false;
    positions->status = ROWS_OK;
    positions->since_us = now_us;
    postgres_session_send_rows(&positions->session, QUERY, parameters, 1);
}

static void
warn(struct rows_positions *positions, const char *what, const char *sqlstate, const char *error)
{
    unsigned skipped = 0;

    if (throttle_allows(&positions->warnings, clock_monotonic_us(), &skipped))
        log_warn("rows", what, LOG_TEXT("sqlstate", sqlstate), LOG_TEXT("error", error),
                 LOG_UINT("suppressed", skipped));
}

static bool
read_result(struct rows_positions *positions, const char *text)
{
    char *end;
    unsigned long timeline;
    unsigned long long lsn;

    timeline = strtoul(text, &end, 10);
    if (end == text || *end != ':' || timeline > UINT32_MAX)
        return false;
    text = end + 1;
    lsn = strtoull(text, &end, 10);
    if (end == text || *end != ':')
        return false;
    positions->result = (struct rows_position){.timeline = (uint32_t)timeline, .lsn = lsn};
    snprintf(positions->outcomes, sizeof(positions->outcomes), "%s", end + 1);
    return strlen(end + 1) == (size_t)positions->xid_count;
}

/* Parses timeline:position:outcomes. */
static void
on_row(void *ctx, const PGresult *row)
{
    struct rows_positions *positions = ctx;

    positions->has_result = PQnfields(row) == 1 && PQgetisnull(row, 0, 0) == 0 &&
                            read_result(positions, PQgetvalue(row, 0, 0));
}

static void
on_error(void *ctx, const PGresult *error)
{
    struct rows_positions *positions = ctx;
    const char *sqlstate = PQresultErrorField(error, PG_DIAG_SQLSTATE);

    positions->status = rows_status_of(sqlstate);
    warn(positions, "could not read the WAL position", sqlstate,
         postgres_error_line(PQresultErrorMessage(error)));
}

/* False: its transaction has not ended. */
static bool
read_outcome(const struct rows_positions *positions, const struct position_group *group,
             enum rows_outcome *ret_outcome)
{
    const char letter = group->index < 0 ? FORGOTTEN : positions->outcomes[group->index];

    *ret_outcome = letter == COMMITTED     ? ROWS_OUTCOME_COMMITTED
                   : letter == ROLLED_BACK ? ROWS_OUTCOME_ROLLED_BACK
                   : letter == UNASSIGNED  ? ROWS_OUTCOME_UNASSIGNED
                                           : ROWS_OUTCOME_NONE;
    return *ret_outcome != ROWS_OUTCOME_NONE || letter == FORGOTTEN;
}

/* Ends the first request of the group, or lets all of them wait. */
static void
complete_next(struct rows_positions *positions, struct position_group *group, int64_t now_us)
{
    struct rows_position position = positions->result;
    const enum rows_status status = positions->status;

    if (status == ROWS_OK && !read_outcome(positions, group, &position.outcome)) {
        group->has_reply = true;
        wait_again(positions, group, now_us + AGAIN_US);
    } else if (status == ROWS_LOST || status == ROWS_BUSY || status == ROWS_TIMED_OUT ||
               status == ROWS_LOCKED) {
        /* the server was shut down, or was short of a resource */
        wait_again(positions, group, now_us + AGAIN_US);
    } else {
        complete(group->requests, status == ROWS_OK ? ROWS_OK : ROWS_FAILED,
                 status == ROWS_OK ? &position : NULL);
    }
}

/* Callbacks may end requests, so the first queried group is handled until none is left. */
static void
on_done(void *ctx)
{
    struct rows_positions *positions = ctx;
    const int64_t now_us = clock_monotonic_us();

    positions->since_us = now_us;
    if (positions->status == ROWS_OK && !positions->has_result) {
        warn(positions, "invalid row from clairon.live_position()", NULL, NULL);
        positions->status = ROWS_FAILED;
    }
    while (positions->groups[GROUP_QUERIED] != NULL)
        complete_next(positions, positions->groups[GROUP_QUERIED], now_us);
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
    const bool is_idle = !positions->is_opening && positions->groups[GROUP_QUERIED] == NULL;
    struct position_group *group;
    int64_t delay_ms;

    positions->is_opening = false;
    positions->since_us = now_us;
    while ((group = positions->groups[GROUP_QUERIED]) != NULL)
        wait_again(positions, group, now_us);
    for (group = positions->waiting; group != NULL; group = group->hh.next)
        group->has_reply = false;
    if (is_idle)
        return; /* the server restarted, or closed the idle session */
    delay_ms = backoff_next_ms(&positions->backoff);
    positions->reconnect_us = now_us + delay_ms * 1000;
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
run(struct rows_positions *positions, int64_t now_us)
{
    if (positions->waiting == NULL)
        return;
    if (positions->session.is_ready && !positions->session.is_busy) {
        send_query(positions, now_us);
    } else if (positions->session.conn == NULL && !positions->is_opening &&
               now_us >= positions->reconnect_us) {
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

    if (positions->is_opening || positions->groups[GROUP_QUERIED] != NULL) {
        if (age_us > max_us) {
            postgres_session_close(&positions->session);
            on_lost(positions, "timeout expired");
        }
    } else if (positions->session.conn != NULL && age_us > IDLE_US) {
        postgres_session_close(&positions->session);
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
    run(positions, now_us);
    set_tick(positions);
}

struct rows_positions *
positions_open(struct ev_loop *loop, const struct config *config, const char *conninfo)
{
    struct rows_positions *positions = memory_new(sizeof(*positions));

    positions->loop = loop;
    positions->config = config;
    positions->backoff = (struct backoff){.base_ms = RECONNECT_BASE_MS, .cap_ms = RECONNECT_CAP_MS};
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
