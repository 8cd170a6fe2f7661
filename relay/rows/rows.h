/* rows.h: reads the rows of live rules from PostgreSQL, for users of this relay. */
#ifndef CLAIRON_ROWS_ROWS_H
#define CLAIRON_ROWS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/config.h"
#include "base/rc.h"
#include "base/stats.h"
#include "wire/client_message.h"
#include "wire/codes.h"
#include "wire/rows_conditions.h"
#include "wire/snapshot.h"

#define ROWS_PAGE_MAX (256 * 1024) /* maximum bytes of a page; a longer row is a separate page */
/* The longest error message, including its zero byte. */
#define ROWS_ERROR_TEXT_MAX (CLIENT_MESSAGE_SOURCE_MAX + CLIENT_MESSAGE_RULE_MAX + 64)

struct ev_loop;
struct rows;
struct rows_request; /* one client's request for the rows of a live rule */

enum rows_status {
    ROWS_OK,
    ROWS_DENIED,     /* no such live rule, not addressed, or a column is not allowed */
    ROWS_INVALID,    /* a condition is invalid; the result, if any, has the reason */
    ROWS_TOO_MANY,   /* rows.max_rows or rows.max_bytes exceeded */
    ROWS_BUSY,       /* the queue is full, or the request waited too long */
    ROWS_USER_LIMIT, /* the user has too many requests or unread results */
    ROWS_TIMED_OUT,  /* the query took longer than rows.timeout */
    ROWS_LOST,       /* no connection to the database */
    ROWS_STALE,      /* no snapshot was new enough before the timeout */
    ROWS_LOCKED,     /* a transaction kept a table locked until the timeout */
    ROWS_FAILED,     /* another server error, which is logged */
    ROWS_OFF         /* no connection string is set */
};

/* The error that a client receives for a status other than ROWS_OK. */
struct rows_error {
    enum gate_err code;
    int http_status;
    const char *text;
    bool is_retryable; /* the client may retry after a delay */
    enum metric stat;
};

/*
 * The rows of one query, shared by all requests that it serves. Reference-counted; immutable once
 * it is complete. The rows are JSON strings that are copied unchanged from the server.
 */
struct rows_result {
    unsigned refs;
    bool has_header;
    struct rows_header header;
    struct buffer rows; /* each row followed by a comma */
    size_t *ends;       /* end of each row in `rows`, before its comma */
    size_t count;
    size_t room; /* capacity of ends[] */
    size_t max_rows;
    size_t max_bytes; /* maximum bytes of rows, without commas */
    /*
     * The request has a limit: its first row may exceed max_bytes, because otherwise the client
     * would never get past it.
     */
    bool has_limit;
    bool has_rest;      /* more rows match than were requested */
    size_t bytes;       /* memory of rows[] and ends[] */
    size_t *held_bytes; /* total memory of all results; not owned */
};

/* The user and the user's groups come from a token, never from the request. */
struct rows_wanted {
    const char *source; /* table, or schema.table outside public */
    const char *rule;
    const char *user;
    const char *groups; /* groups of the token, as a JSON object of arrays */
    struct rows_conditions conditions;
};

/* Callbacks of a request. Only `done` may start or end another request. */
struct rows_events {
    /* True if the snapshot contains all changes of which the client was notified. */
    bool (*accepts)(void *ctx, const struct snapshot *snapshot);
    /*
     * Called once, from the loop. ROWS_OK: `result` is valid until rows_request_end. Also with an
     * error that the server returned as a header, which is then all that it has. Otherwise it is
     * NULL; if the error is retryable, the client retries after after_ms.
     */
    void (*done)(void *ctx, enum rows_status status, const struct rows_result *result,
                 int64_t after_ms);
};

/*
 * Connects when the first request arrives. config and stats must outlive the returned object. NULL:
 * neither [rows] conninfo nor [feed] conninfo is set.
 */
struct rows *rows_open(struct ev_loop *loop, const struct config *config, struct stats *stats);

/* Closes the connections. All requests must have ended. Accepts NULL. */
void rows_close(struct rows *rows);

/*
 * ROWS_OK: `done` is called later, from the loop, and the caller owns *ret_request. ROWS_BUSY,
 * ROWS_USER_LIMIT, ROWS_TIMED_OUT: retry after *ret_after_ms. ROWS_OFF: `rows` is NULL.
 */
enum rows_status rows_request_start(struct rows *rows, const struct rows_wanted *wanted,
                                    const struct rows_events *events, void *ctx,
                                    struct rows_request **ret_request, int64_t *ret_after_ms);

/* Counts the client's copy of its result as result memory, until rows_request_end. */
void rows_request_hold(struct rows_request *request, size_t bytes);

/*
 * Ends and frees a request. Before `done`, the call cancels the request; afterwards it releases the
 * result. Until this call the request counts towards its user's limit.
 */
void rows_request_end(struct rows_request *request);

/*
 * Adds the page that starts at row `first` to `out`, as a `rows` frame without a line break.
 * *ret_next is the first row of the next page; after the last page it is the number of rows.
 */
MUST_CHECK enum rc rows_result_write_page(const struct rows_result *result, size_t first,
                                          int64_t request_id, struct buffer *out, size_t *ret_next);

/* Adds all rows, or their number, in the format of GET /v1/rows. */
MUST_CHECK enum rc rows_result_write(const struct rows_result *result, struct buffer *out);

/* ---- position.c: WAL positions behind the commits that are visible, for barriers */

/* How the transaction of a request has ended. */
enum rows_outcome {
    ROWS_OUTCOME_NONE, /* the request names no transaction, or PostgreSQL forgot how it ended */
    ROWS_OUTCOME_COMMITTED, /* committed, and visible to new snapshots */
    ROWS_OUTCOME_ROLLED_BACK,
    ROWS_OUTCOME_UNASSIGNED /* no transaction has had this id */
};

struct rows_position {
    enum rows_outcome outcome;
    uint32_t timeline;
    uint64_t lsn; /* all commits that were visible at the start of the request precede it */
};

struct rows_position_request;

/*
 * Called once, from the loop, and ends the request. ROWS_FAILED: the server has returned an error,
 * which is logged, and position is NULL.
 */
typedef void rows_position_known(void *ctx, enum rows_status status,
                                 const struct rows_position *position);

/*
 * Requests the position. xid 0: of no transaction; otherwise once that transaction has ended. All
 * requests that wait share a query. There is no time limit: the caller cancels the request. NULL:
 * `rows` is NULL, or too many requests wait.
 */
struct rows_position_request *rows_position_start(struct rows *rows, uint64_t xid,
                                                  rows_position_known *done, void *ctx);
/*
 * Returns what a request waits for. ROWS_BUSY: for the end of its transaction. ROWS_LOST: for the
 * database.
 */
enum rows_status rows_position_wait(const struct rows_position_request *request);
/* Cancels a request. Accepts NULL. */
void rows_position_end(struct rows_position_request *request);

const struct rows_error *rows_error_of(enum rows_status status);

/*
 * Writes the error message into `buffer` and returns it. ROWS_DENIED includes source and rule as
 * requested, because a client may request several lists. `result` is that of the callback.
 */
const char *rows_error_text(enum rows_status status, const struct rows_result *result,
                            const char *source, const char *rule, char buffer[ROWS_ERROR_TEXT_MAX]);

#endif
