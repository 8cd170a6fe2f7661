/* request.h: one client's request for the rows of a live rule. */
#ifndef CLAIRON_ROWS_REQUEST_H
#define CLAIRON_ROWS_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "rows/result.h"
#include "rows/status.h"

struct rows_request;

/* The user and its groups come from a token, never from the request. */
struct rows_wanted {
    const char *source; /* table, or schema.table outside public */
    const char *rule;
    const char *user;
    const char *groups; /* of the token, as a JSON object of arrays */
};

/* The client's part. No callback may begin or end another request, except `done`. */
struct rows_events {
    /*
     * Adds the client's memberships in the groups of this audience, in a canonical form: clients
     * with equal texts are addressed by the same rows. RC_AGAIN: unknown, the result is not shared.
     */
    enum rc (*add_groups)(void *ctx, const char *audience, struct buffer *out);
    /* True if the snapshot contains all changes that the client was notified of. */
    bool (*accepts)(void *ctx, const struct snapshot *snapshot);
    /*
     * Called once, from the loop. ROWS_OK: `result` lives until rows_request_end. Otherwise it is
     * NULL; after_ms is the delay before the client asks again, if the error is retryable.
     */
    void (*done)(void *ctx, enum rows_status status, const struct rows_result *result,
                 int64_t after_ms);
};

/* Counts the client's copy of its result with the results in memory, until rows_request_end. */
void rows_request_hold(struct rows_request *request, size_t bytes);

/*
 * Ends and frees a request: cancels it before `done`, and releases its result afterwards. A request
 * counts for its user until then.
 */
void rows_request_end(struct rows_request *request);

#endif
