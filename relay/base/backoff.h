/* backoff.h: retry delays that double, with jitter. */
#ifndef CLAIRON_BASE_BACKOFF_H
#define CLAIRON_BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t base_ms;
    int64_t cap_ms;
    unsigned failures; /* since the last success */
};

/*
 * Returns the next delay in ms, between half and all of base * 2^failures, at most cap. Counts the
 * failure.
 */
int64_t backoff_next_ms(struct backoff *backoff);
void backoff_reset(struct backoff *backoff);

#endif
