/* request.h: one client's request for the rows of a live rule. */
#ifndef CLAIRON_ROWS_REQUEST_H
#define CLAIRON_ROWS_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "rows/result.h"
#include "rows/status.h"

struct rows_request;

/* The user and the user's groups come from a token, never from the request. */
struct rows_wanted {
    const char *source; /* table, or schema.table outside public */
    const char *rule;
    const char *user;
    const char *groups; /* groups of the token, as a JSON object of arrays */
};

/* Callbacks of a request. Only `done` may start or end another request. */
struct rows_events {
    /* True if the snapshot contains all changes of which the client was notified. */
    bool (*accepts)(void *ctx, const struct snapshot *snapshot);
    /*
     * Called once, from the loop. ROWS_OK: `result` is valid until rows_request_end. Otherwise it
     * is NULL; if the error is retryable, the client retries after after_ms.
     */
    void (*done)(void *ctx, enum rows_status status, const struct rows_result *result,
                 int64_t after_ms);
};

/* Counts the client's copy of its result as result memory, until rows_request_end. */
void rows_request_hold(struct rows_request *request, size_t bytes);

/*
 * Ends and frees a request. Before `done`, the call cancels the request; afterwards it releases the
 * result. Until this call the request counts towards its user's limit.
 */
void rows_request_end(struct rows_request *request);

#endif
