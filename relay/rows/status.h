/* status.h: the statuses of a request for rows, and the errors sent to clients. */
#ifndef CLAIRON_ROWS_STATUS_H
#define CLAIRON_ROWS_STATUS_H

#include <stdbool.h>

#include "base/stats.h"
#include "wire/client_message.h"
#include "wire/codes.h"

/* The longest error message, including its zero byte. */
#define ROWS_ERROR_TEXT_MAX (CLIENT_MESSAGE_SOURCE_MAX + CLIENT_MESSAGE_RULE_MAX + 64)

enum rows_status {
    ROWS_OK,
    ROWS_DENIED,     /* no such live rule, or it does not address the user */
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

const struct rows_error *rows_error_of(enum rows_status status);

/*
 * Writes the error message into `buffer` and returns it. ROWS_DENIED includes source and rule as
 * requested, because a client may request several lists.
 */
const char *rows_error_text(enum rows_status status, const char *source, const char *rule,
                            char buffer[ROWS_ERROR_TEXT_MAX]);

/* Returns the status for a server error; NULL: it has no SQLSTATE. */
enum rows_status rows_status_of(const char *sqlstate);

#endif
