/* rows.c: connects the queue of requests to the PostgreSQL connections. */
#include "rows/rows_private.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define BUSY_TICK_S 0.02 /* while requests wait or queries run */
#define IDLE_TICK_S 1.0  /* while connections are open, or clients read results */

struct rows {
    struct ev_loop *loop;
    struct rows_queue queue;
    struct rows_pool pool;
    ev_timer tick;
};

static void
set_tick(struct rows *rows)
{
    bool is_busy = rows->queue.waiting_count > 0 || rows_pool_is_running(&rows->pool);
    double every_s = is_busy ? BUSY_TICK_S : IDLE_TICK_S;

    if (!is_busy && !rows_pool_is_open(&rows->pool) && rows->pool.held_bytes == 0) {
        ev_timer_stop(rows->loop, &rows->tick);
        return;
    }
    if (ev_is_active(&rows->tick) && rows->tick.repeat == every_s)
        return;
    rows->tick.repeat = every_s;
    ev_timer_again(rows->loop, &rows->tick);
}

static void
on_soon(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct rows *rows = timer->data;

    (void)loop;
    (void)events;
    rows_pool_run(&rows->pool, clock_monotonic_us());
    set_tick(rows);
}

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct rows *rows = timer->data;
    int64_t now_us = clock_monotonic_us();

    (void)loop;
    (void)events;
    rows_pool_sweep(&rows->pool, now_us);
    rows_queue_expire(&rows->queue, rows_pool_is_connected(&rows->pool) ? ROWS_BUSY : ROWS_LOST,
                      now_us);
    rows_pool_run(&rows->pool, now_us);
    stats_set(rows->pool.stats, STAT_ROWS_HELD, rows->pool.held_bytes);
    set_tick(rows);
}

struct rows *
rows_open(struct ev_loop *loop, const struct config *config, struct stats *stats)
{
    const char *conninfo =
        config->rows.conninfo != NULL ? config->rows.conninfo : config->feed.conninfo;
    struct rows *rows;

    if (conninfo == NULL)
        return NULL;
    rows = memory_new(sizeof(*rows));
    rows->loop = loop;
    rows->queue = (struct rows_queue){
        .stats = stats,
        .limits = {.waiting = (size_t)config->rows.queue,
                   .wait_us = config->rows.timeout_ms * 1000,
                   .connections = (size_t)config->rows.connections,
                   .user_bytes = ROWS_HELD_PER_USER_MAX * (size_t)config->rows.max_bytes},
    };
    rows->pool = (struct rows_pool){.stats = stats, .queue = &rows->queue};
    ev_init(&rows->pool.soon, on_soon);
    ev_init(&rows->tick, on_tick);
    rows->pool.soon.data = rows->tick.data = rows;
    rows_pool_open(&rows->pool, loop, config, conninfo);
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
        rows_pool_run_soon(&rows->pool);
    else
        *ret_after_ms = rows_queue_after_ms(&rows->queue, status);
    return status;
}

void
rows_close(struct rows *rows)
{
    if (rows == NULL)
        return;
    ev_timer_stop(rows->loop, &rows->tick);
    rows_pool_close(&rows->pool);
    rows_queue_close(&rows->queue);
    free(rows);
}
