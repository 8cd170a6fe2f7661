/* fault.h: hints for the store's error replies, and a rate limit for their log messages. */
#ifndef CLAIRON_STORE_FAULT_H
#define CLAIRON_STORE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct fault {
    const char *word; /* substring of the reply */
    const char *hint;
    /* reconnect, because the next attempt may reach another server or the repaired server */
    bool is_of_server;
};

/* Returns NULL for an unknown error. `error` may be wrapped in a script error. */
const struct fault *fault_find(const char *error);

/*
 * The server lacks the shard or a part of it, or is not a primary: a slot migration or failover is
 * in progress. The request had no effect.
 */
bool fault_is_redirection(const char *error);

/*
 * The server runs a script that takes long, and rejects all requests until its end. `error` is a
 * reply, or that of a transaction.
 */
bool fault_is_busy(const char *error);

/* Returns a constant hint on how to fix `error`; NULL if unknown. */
const char *fault_hint(const char *error);

#define FAULT_KINDS 16 /* enough for a full store, which rejects ten kinds of requests */

/* Limits the log to one message per request and fault within 10 s. Must be initialized to zero. */
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
 * Logs `failure` ("could not store a batch") with the error and its hint. `failure` must be a
 * string constant: its pointer is stored. Returns fault_find(error).
 */
const struct fault *fault_report(struct fault_log *log, const char *failure, const char *error);

#endif
