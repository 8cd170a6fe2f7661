/* rows.h: reads the rows of live rules from PostgreSQL, for users of this relay. */
#ifndef CLAIRON_ROWS_ROWS_H
#define CLAIRON_ROWS_ROWS_H

#include "base/config.h"
#include "base/stats.h"
#include "rows/request.h"

struct ev_loop;
struct rows;

/*
 * Connects when the first request arrives. config and stats must outlive the returned object. NULL:
 * neither [rows] conninfo nor [feed] conninfo is set.
 */
struct rows *rows_open(struct ev_loop *loop, const struct config *config, struct stats *stats);

/*
 * ROWS_OK: `done` is called later, from the loop, and the caller owns *ret_request. ROWS_BUSY,
 * ROWS_USER_LIMIT, ROWS_TIMED_OUT: retry after *ret_after_ms. ROWS_OFF: `rows` is NULL.
 */
enum rows_status rows_request_start(struct rows *rows, const struct rows_wanted *wanted,
                                    const struct rows_events *events, void *ctx,
                                    struct rows_request **ret_request, int64_t *ret_after_ms);

/* Closes the connections. All requests must have ended. Accepts NULL. */
void rows_close(struct rows *rows);

#endif
