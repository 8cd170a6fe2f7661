/* backoff.h: retry delays that double, with jitter. */
#ifndef CLAIRON_BASE_BACKOFF_H
#define CLAIRON_BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t base_ms;
    int64_t cap_ms;
    unsigned failures; /* consecutive failures */
};

/*
 * Returns the next delay in ms, between 50 % and 100 % of base * 2^failures, at most cap. Counts
 * the failure.
 */
int64_t backoff_next_ms(struct backoff *backoff);
void backoff_reset(struct backoff *backoff);

#endif
