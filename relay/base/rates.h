/* rates.h: how many a second: of one thing, or of each of many names. Pure. */
#ifndef CLAIRON_BASE_RATES_H
#define CLAIRON_BASE_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many a second, and as many at once. Zeroed: full. Times are monotonic, in us. */
struct rate_bucket {
    double left;
    int64_t at_us; /* when `left` was so many; 0: never */
};

/* True when there was one to take; a rate of 0 has no end. */
bool rate_bucket_take(struct rate_bucket *bucket, int64_t rate, int64_t now_us);

#define RATES_NAMES_MAX 4096

/*
 * A bucket for each name. Who has a full one is forgotten, and beyond so many names the one that
 * took least lately, whose bucket is then taken for full.
 */
struct rates;

struct rates *rates_new(void);
void rates_free(struct rates *rates); /* accepts NULL */

bool rates_take(struct rates *rates, const char *name, int64_t rate, int64_t now_us);

/* What was taken is given back: it was somebody else's to take. */
void rates_give(struct rates *rates, const char *name);

size_t rates_count(const struct rates *rates);

#endif
