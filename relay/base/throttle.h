/* throttle.h: rate limit for a warning that a client can trigger repeatedly. Pure. */
#ifndef CLAIRON_BASE_THROTTLE_H
#define CLAIRON_BASE_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_EVERY_US (10 * INT64_C(1000000))

struct throttle {
    int64_t next_us;  /* time of the next allowed warning; monotonic */
    unsigned skipped; /* warnings suppressed since the last warning */
};

/* True if the warning is due. *ret_skipped: warnings suppressed since the last warning. */
static inline bool
throttle_allows(struct throttle *throttle, int64_t now_us, unsigned *ret_skipped)
{
    if (now_us < throttle->next_us) {
        throttle->skipped++;
        return false;
    }
    *ret_skipped = throttle->skipped;
    *throttle = (struct throttle){.next_us = now_us + THROTTLE_EVERY_US};
    return true;
}

#endif
