/* rates.c: token buckets, single or one per name. */
#include "base/rates.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/memory.h"

#define SECOND_US 1000000 /* time to refill an empty bucket */
#define EVICTIONS_PER_CALL 2

struct named_bucket {
    struct rate_bucket bucket;
    UT_hash_handle hh; /* sorted by last use, the oldest first */
    char name[];
};

struct rates {
    struct named_bucket *buckets;
};

bool
rate_bucket_consume(struct rate_bucket *bucket, int64_t rate, int64_t now_us)
{
    double max = (double)rate;

    if (rate == 0)
        return true;
    if (bucket->at_us == 0)
        bucket->left = max;
    else
        bucket->left += (double)(now_us - bucket->at_us) * max / SECOND_US;
    bucket->at_us = now_us;
    if (bucket->left > max)
        bucket->left = max;
    if (bucket->left < 1)
        return false;
    bucket->left -= 1;
    return true;
}

struct rates *
rates_new(void)
{
    return memory_new(sizeof(struct rates));
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
find(const struct rates *rates, const char *name)
{
    struct named_bucket *found = NULL;

    HASH_FIND_STR(rates->buckets, name, found);
    return found;
}

static void
evict_full(struct rates *rates, int64_t now_us)
{
    for (int i = 0; i < EVICTIONS_PER_CALL && rates->buckets != NULL; i++) {
        if (rates->buckets->bucket.at_us > now_us - SECOND_US)
            return;
        evict_oldest(rates);
    }
}

/* Finds or adds the bucket, and moves it to the end: the least recently used one is first. */
static struct named_bucket *
newest(struct rates *rates, const char *name)
{
    struct named_bucket *named = find(rates, name);
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
    return rate_bucket_consume(&newest(rates, name)->bucket, rate, now_us);
}

void
rates_refund(struct rates *rates, const char *name)
{
    struct named_bucket *named = find(rates, name);

    if (named != NULL)
        named->bucket.left += 1;
}
