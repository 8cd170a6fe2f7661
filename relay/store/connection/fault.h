/*
 * fault.h: the store's error replies: what they mean, what mends them, and how often they are
 * logged.
 */
#ifndef CLAIRON_STORE_FAULT_H
#define CLAIRON_STORE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct fault {
    const char *word; /* in the reply */
    const char *hint;
    bool is_of_server; /* another connection may lead to another server, or find it mended */
};

/* NULL: an error that speaks for itself. `error` may come from within a script. */
const struct fault *fault_find(const char *error);

/* "; " and the hint, or "". */
const char *fault_tail(const char *error);

#define FAULT_KINDS 16 /* a full store refuses ten */

/* What was logged lately: of each kind one line in ten seconds. All zero: nothing yet. */
struct fault_log {
    struct fault_seen {
        const char *what;
        const struct fault *fault;
        int64_t at_us;
        unsigned held_back;
    } seen[FAULT_KINDS];
    unsigned next;
};

/* "could not <what>: <error>; <hint>". `what` is a constant text. Returns fault_find(error). */
const struct fault *fault_report(struct fault_log *log, const char *what, const char *error);

#endif
