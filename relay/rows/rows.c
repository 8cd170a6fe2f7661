/* rows.c: what the module offers: requests for rows, which share queries, and for positions. */
#include "rows/rows_private.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

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
