/* fault.h: error replies of the store: their hints, and a rate limit for their log lines. */
#ifndef CLAIRON_STORE_FAULT_H
#define CLAIRON_STORE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct fault {
    const char *word; /* substring of the reply */
    const char *hint;
    bool is_of_server; /* reconnect: the next attempt may reach another or a repaired server */
};

/* NULL for an unknown error. `error` may be wrapped in the error of a script. */
const struct fault *fault_find(const char *error);

/*
 * The server does not have the shard, or not all of it, or is no primary: a shard is moving, or a
 * replica takes over. The request had no effect.
 */
bool fault_is_redirection(const char *error);

/* How to fix `error`, a constant text; NULL if unknown. */
const char *fault_hint(const char *error);

#define FAULT_KINDS 16 /* a full store rejects ten kinds of requests */

/* Rate limit: one line per request, fault and 10 s. Starts zeroed. */
struct fault_log {
    struct fault_seen {
        const char *failure;
        const struct fault *fault;
        int64_t at_us;
        unsigned suppressed;
    } seen[FAULT_KINDS];
    unsigned next;
};

/*
 * Logs `failure` ("could not store a batch") with the error and its hint. `failure` is a string
 * constant: its pointer is kept. Returns fault_find(error).
 */
const struct fault *fault_report(struct fault_log *log, const char *failure, const char *error);

#endif
