/* backoff.c: doubles the delay, with jitter, so that relays do not reconnect simultaneously. */
#include "base/backoff.h"

#include <limits.h>
#include <sys/random.h>

#include "base/clock.h"

static uint64_t
random_below(uint64_t bound)
{
    uint64_t value;

    /* getrandom() may block early in the boot, and jitter is not worth a delay. */
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) != (ssize_t)sizeof value)
        value = (uint64_t)clock_monotonic_us();
    return value % bound;
}

int64_t
backoff_next_ms(struct backoff *backoff)
{
    int64_t full = backoff->base_ms;

    for (unsigned i = 0; i < backoff->failures && full > 0 && full < backoff->cap_ms; i++)
        full = full > INT64_MAX / 2 ? INT64_MAX : full * 2;
    if (full > backoff->cap_ms)
        full = backoff->cap_ms;
    if (backoff->failures < UINT_MAX)
        backoff->failures++;
    if (full <= 0)
        return 0;

    int64_t half = full - full / 2;

    return half + (int64_t)random_below((uint64_t)(full - half) + 1);
}

void
backoff_reset(struct backoff *backoff)
{
    backoff->failures = 0;
}
