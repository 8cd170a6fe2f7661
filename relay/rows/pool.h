/* pool.h: the connections that run queries for rows. */
#ifndef CLAIRON_ROWS_POOL_H
#define CLAIRON_ROWS_POOL_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/config.h"
#include "base/rates.h"
#include "postgres/session.h"
#include "rows/queue.h"

/* Maximum results in memory, of rows.max_bytes each. At the limit no query starts. */
#define ROWS_HELD_MAX 32
#define ROWS_HELD_PER_USER_MAX (ROWS_HELD_MAX / 8)

/*
 * CLOSED: not connected. Opened when a query waits and no connection is IDLE; only one at a time,
 * and not before retry_us. Next: OPENING.
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
    int64_t since_us; /* start of the state; monotonic */
    struct postgres_session session;
    struct rows_query *query;   /* the query in RUNNING and STUCK */
    struct rows_result *result; /* in RUNNING: the rows received so far */
    enum rows_status status;    /* in RUNNING: status of the results so far */
};

struct rows_pool {
    struct ev_loop *loop;
    const struct config *config;
    struct stats *stats;
    struct rows_queue *queue;
    ev_timer soon; /* runs rows_pool_run; the owner sets the callback */
    struct rows_connection *connections;
    int count;
    struct backoff backoff;
    int64_t retry_us;  /* earliest time to reconnect; monotonic */
    size_t held_bytes; /* total size of results in memory */
    struct throttle warnings;
};

/* The caller has set stats, queue and soon. Connects when a query waits. */
void rows_pool_open(struct rows_pool *pool, struct ev_loop *loop, const struct config *config,
                    const char *conninfo);

/* Schedules rows_pool_run for the next loop iteration. */
void rows_pool_run_soon(struct rows_pool *pool);

/* Starts queries on idle connections, and opens a connection if none is idle. */
void rows_pool_run(struct rows_pool *pool, int64_t now_us);

/* Closes connections that were idle or connecting for too long, and abandons overdue queries. */
void rows_pool_sweep(struct rows_pool *pool, int64_t now_us);

bool rows_pool_is_connected(const struct rows_pool *pool); /* at least one session is set up */
/* at least one connection is not CLOSED */
bool rows_pool_is_open(const struct rows_pool *pool);
/* at least one connection is RUNNING or OPENING */
bool rows_pool_is_running(const struct rows_pool *pool);

/* Closes all connections without calling the callbacks of requests. */
void rows_pool_close(struct rows_pool *pool);

#endif
