/* rates.h: token buckets, single or one per name, throttles of log messages, and retry delays. */
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
 * One bucket per name, each for `burst_s` seconds. Buckets that are full because they were not used
 * for so long are evicted. At the maximum, the least recently used bucket is evicted.
 */
struct rates;

struct rates *rates_new(int burst_s);
void rates_free(struct rates *rates); /* accepts NULL */

bool rates_consume(struct rates *rates, const char *name, int64_t rate, int64_t now_us);

/* True if rates_consume would be. */
bool rates_has(const struct rates *rates, const char *name, int64_t rate, int64_t now_us);

/* Returns tokens that were charged to the wrong name; below 0: charges more. */
void rates_refund(struct rates *rates, const char *name, double tokens);

/* The rate limit of a message in the log. A zeroed throttle allows the first message. */

#define THROTTLE_EVERY_US (10 * INT64_C(1000000))

struct throttle {
    int64_t next_us;  /* time of the next allowed message; monotonic */
    unsigned skipped; /* messages suppressed since the last message */
};

/* True if the message is due. *ret_skipped: messages suppressed since the last message. */
bool throttle_allows(struct throttle *throttle, int64_t now_us, unsigned *ret_skipped);

#define THROTTLES_MAX 16 /* more than the kinds of requests that a full store rejects */

/* The throttles of messages of which there are many kinds. Must be initialized to zero. */
struct throttles {
    struct {
        uint64_t kind;
        struct throttle throttle;
    } of[THROTTLES_MAX];
    unsigned next; /* the oldest kind, which is replaced first */
};

/* Returns the throttle of a kind of messages, which is a hash of what distinguishes them. */
struct throttle *throttles_find(struct throttles *throttles, uint64_t kind);

/* Retry delays that double, with jitter. */

struct backoff {
    int64_t base_ms;
    int64_t cap_ms;
    unsigned failures; /* consecutive failures */
};

/* Returns base * 2^failures, at most cap, in ms. */
int64_t backoff_full_ms(const struct backoff *backoff);
/* Returns the next delay, between 50 % and 100 % of backoff_full_ms, and counts the failure. */
int64_t backoff_next_ms(struct backoff *backoff);
void backoff_reset(struct backoff *backoff);

#endif
