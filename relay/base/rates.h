/* rates.h: token buckets, single or one per name, and the throttle of a warning. Pure. */
#ifndef CLAIRON_BASE_RATES_H
#define CLAIRON_BASE_RATES_H

#include <stdbool.h>
#include <stdint.h>

/* A token bucket for one second. A zeroed bucket is full. Times are monotonic, in us. */
struct rate_bucket {
    double left;
    int64_t at_us; /* time of the last use; 0: never used */
};

/* True if a token was available. A rate of 0 means no limit. */
bool rate_bucket_consume(struct rate_bucket *bucket, int64_t rate, int64_t now_us);

#define RATES_NAMES_MAX 4096

/*
 * One bucket per name. Full buckets are evicted. At the maximum, the least recently used bucket is
 * evicted.
 */
struct rates;

struct rates *rates_new(void);
void rates_free(struct rates *rates); /* accepts NULL */

bool rates_consume(struct rates *rates, const char *name, int64_t rate, int64_t now_us);

/* Refunds a token that was charged to the wrong name. */
void rates_refund(struct rates *rates, const char *name);

/* The rate limit of a warning that a client can trigger repeatedly. */

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
