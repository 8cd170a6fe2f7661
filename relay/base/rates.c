/* rates.c: token buckets, single or one per name; throttles of log messages; retry delays. */
#include "base/rates.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <uthash.h>

#include "base/clock.h"
#include "base/memory.h"

#define SECOND_US INT64_C(1000000)
#define EVICTIONS_PER_CALL 2

struct named_bucket {
    struct rate_bucket bucket;
    UT_hash_handle hh; /* sorted by last use, the oldest first */
    char name[];
};

struct rates {
    struct named_bucket *buckets;
    int burst_s;
};

static double
left_at(const struct rate_bucket *bucket, int64_t rate, int burst_s, int64_t now_us)
{
    const double max = (double)rate * burst_s;
    const double left = bucket->left + (double)(now_us - bucket->at_us) * (double)rate / SECOND_US;

    return bucket->at_us == 0 || left > max ? max : left;
}

static bool
consume(struct rate_bucket *bucket, int64_t rate, int burst_s, int64_t now_us)
{
    bucket->left = left_at(bucket, rate, burst_s, now_us);
    bucket->at_us = now_us;
    if (bucket->left < 1)
        return false;
    bucket->left -= 1;
    return true;
}

bool
rate_bucket_consume(struct rate_bucket *bucket, int64_t rate, int64_t now_us)
{
    return rate == 0 || consume(bucket, rate, 1, now_us);
}

struct rates *
rates_new(int burst_s)
{
    struct rates *rates = memory_new(sizeof(*rates));

    rates->burst_s = burst_s;
    return rates;
}

static void
evict_oldest(struct rates *rates)
{
    struct named_bucket *oldest = rates->buckets;

    HASH_DEL(rates->buckets, oldest);
    free(oldest);
}

void
rates_free(struct rates *rates)
{
    while (rates != NULL && rates->buckets != NULL)
        evict_oldest(rates);
    free(rates);
}

static struct named_bucket *
find_bucket(const struct rates *rates, const char *name)
{
    struct named_bucket *found = NULL;

    HASH_FIND_STR(rates->buckets, name, found);
    return found;
}

static void
evict_full(struct rates *rates, int64_t now_us)
{
    for (int i = 0; i < EVICTIONS_PER_CALL && rates->buckets != NULL; i++) {
        if (rates->buckets->bucket.at_us > now_us - rates->burst_s * SECOND_US)
            return;
        evict_oldest(rates);
    }
}

/* Finds or adds the bucket, and moves it to the end: the least recently used one is first. */
static struct named_bucket *
newest(struct rates *rates, const char *name)
{
    struct named_bucket *named = find_bucket(rates, name);
    size_t size = strlen(name) + 1;

    if (named != NULL && named->hh.next == NULL)
        return named;
    if (named != NULL) {
        HASH_DEL(rates->buckets, named);
    } else {
        if (HASH_COUNT(rates->buckets) >= RATES_NAMES_MAX)
            evict_oldest(rates);
        named = memory_new(sizeof(*named) + size);
        memcpy(named->name, name, size);
    }
    HASH_ADD_STR(rates->buckets, name, named);
    return named;
}

bool
rates_consume(struct rates *rates, const char *name, int64_t rate, int64_t now_us)
{
    if (rate == 0)
        return true;
    evict_full(rates, now_us);
    return consume(&newest(rates, name)->bucket, rate, rates->burst_s, now_us);
}

bool
rates_has(const struct rates *rates, const char *name, int64_t rate, int64_t now_us)
{
    const struct named_bucket *named = find_bucket(rates, name);

    return named == NULL || rate == 0 || left_at(&named->bucket, rate, rates->burst_s, now_us) >= 1;
}

void
rates_refund(struct rates *rates, const char *name, double tokens)
{
    struct named_bucket *named = find_bucket(rates, name);

    if (named != NULL)
        named->bucket.left += tokens;
}

bool
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

struct throttle *
throttles_find(struct throttles *throttles, uint64_t kind)
{
    unsigned oldest = throttles->next;

    for (unsigned i = 0; i < THROTTLES_MAX; i++)
        if (throttles->of[i].kind == kind && throttles->of[i].throttle.next_us != 0)
            return &throttles->of[i].throttle;
    throttles->next = (oldest + 1) % THROTTLES_MAX;
    throttles->of[oldest].kind = kind;
    throttles->of[oldest].throttle = (struct throttle){0};
    return &throttles->of[oldest].throttle;
}

/* ---- retry delays: they double, with jitter, so that relays do not reconnect simultaneously */

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
backoff_full_ms(const struct backoff *backoff)
{
    int64_t full = backoff->base_ms;

    for (unsigned i = 0; i < backoff->failures && full > 0 && full < backoff->cap_ms; i++)
        full = full > INT64_MAX / 2 ? INT64_MAX : full * 2;
    return full < backoff->cap_ms ? full : backoff->cap_ms;
}

int64_t
backoff_next_ms(struct backoff *backoff)
{
    const int64_t full = backoff_full_ms(backoff), half = full - full / 2;

    if (backoff->failures < UINT_MAX)
        backoff->failures++;
    return full > 0 ? half + (int64_t)random_below((uint64_t)(full - half) + 1) : 0;
}

void
backoff_reset(struct backoff *backoff)
{
    backoff->failures = 0;
}
