/* pool.h: the connections on which queries for rows run. */
#ifndef CLAIRON_ROWS_POOL_H
#define CLAIRON_ROWS_POOL_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/config.h"
#include "base/throttle.h"
#include "postgres/session.h"
#include "rows/queue.h"

/* Results in memory, of rows.max_bytes each. At the limit no query starts. */
#define ROWS_HELD_MAX 32
#define ROWS_HELD_PER_USER_MAX (ROWS_HELD_MAX / 8)

/*
 * CLOSED: not connected. Opened when a query waits and no connection is IDLE, but one at a time and
 * not before retry_us. Next: OPENING.
 *
 * OPENING: it connects, and sets the session up. Next: IDLE; CLOSED on an error or after a timeout.
 *
 * IDLE: it waits for a query. Next: RUNNING; CLOSED after a minute or if the server ends it.
 *
 * RUNNING: a query runs. The server ends it after rows.timeout. Next: IDLE; CLOSED if the
 * connection is lost; STUCK if the server does not end it in time.
 *
 * STUCK: the requests of its query have ended, but the server still runs it. The connection stays
 * open, because closing it does not end a backend that ignores interrupts, and a new connection
 * would add a backend. Next: IDLE when the query ends; CLOSED when the backend does.
 */
enum rows_connection_state {
    ROWS_CONNECTION_CLOSED,
    ROWS_CONNECTION_OPENING,
    ROWS_CONNECTION_IDLE,
    ROWS_CONNECTION_RUNNING,
    ROWS_CONNECTION_STUCK
};

struct rows_connection {
    struct rows_pool *pool;
    enum rows_connection_state state;
    int64_t since_us; /* of the state; monotonic */
    struct postgres_session session;
    struct rows_query *query;   /* RUNNING, STUCK */
    struct rows_result *result; /* RUNNING: the rows so far */
    enum rows_status status;    /* RUNNING: of the results so far */
};

struct rows_pool {
    struct ev_loop *loop;
    const struct config *config;
    struct stats *stats;
    struct rows_queue *queue;
    ev_timer soon; /* calls rows_pool_run, by the owner's callback */
    struct rows_connection *connections;
    int count;
    struct backoff backoff;
    int64_t retry_us;  /* of a failed connection; monotonic */
    size_t held_bytes; /* of results in memory */
    struct throttle warnings;
};

/* The caller has set stats, queue and soon. Connects later. */
void rows_pool_open(struct rows_pool *pool, struct ev_loop *loop, const struct config *config,
                    const char *conninfo);

/* Schedules rows_pool_run for the next loop iteration. */
void rows_pool_run_soon(struct rows_pool *pool);

/* Starts queries on idle connections, and opens one more if that is not enough. */
void rows_pool_run(struct rows_pool *pool, int64_t now_us);

/* Closes connections that were idle or connecting for too long, and abandons overdue queries. */
void rows_pool_sweep(struct rows_pool *pool, int64_t now_us);

bool rows_pool_is_connected(const struct rows_pool *pool); /* at least one session is set up */
bool rows_pool_is_open(const struct rows_pool *pool);      /* at least one state is not CLOSED */
bool rows_pool_is_running(const struct rows_pool *pool);   /* .. is RUNNING or OPENING */

/* Closes all connections, without callbacks of requests. */
void rows_pool_close(struct rows_pool *pool);

#endif
