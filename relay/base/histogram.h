/* histogram.h: counts durations in fixed buckets. */
#ifndef CLAIRON_BASE_HISTOGRAM_H
#define CLAIRON_BASE_HISTOGRAM_H

#include <stdint.h>

#include "base/buffer.h"

/* Upper bounds in microseconds, and as Prometheus labels in seconds. */
#define HISTOGRAM_STEPS(X)                                                                         \
    X(500, "0.0005")                                                                               \
    X(1000, "0.001")                                                                               \
    X(2500, "0.0025")                                                                              \
    X(5000, "0.005")                                                                               \
    X(10000, "0.01")                                                                               \
    X(25000, "0.025")                                                                              \
    X(50000, "0.05")                                                                               \
    X(100000, "0.1")                                                                               \
    X(250000, "0.25")                                                                              \
    X(500000, "0.5")                                                                               \
    X(1000000, "1")                                                                                \
    X(2500000, "2.5")                                                                              \
    X(5000000, "5")                                                                                \
    X(10000000, "10")                                                                              \
    X(30000000, "30")                                                                              \
    X(60000000, "60")                                                                              \
    X(300000000, "300")

#define HISTOGRAM_ONE(end_us, text) +1 /* NOLINT(bugprone-macro-parentheses): their sum is used */
#define HISTOGRAM_STEP_COUNT (HISTOGRAM_STEPS(HISTOGRAM_ONE))

struct histogram {
    uint64_t counts[HISTOGRAM_STEP_COUNT + 1]; /* not cumulative; the last bucket is +Inf */
    uint64_t sum_us;
};

/*
 * Costs at most one comparison per bucket, so it is suitable for hot paths. A negative duration
 * counts as 0.
 */
void histogram_add(struct histogram *histogram, int64_t elapsed_us);

/* Adds the counts of `other`. */
void histogram_sum(struct histogram *histogram, const struct histogram *other);

/*
 * Writes the samples in Prometheus' text format, without HELP and TYPE. `metric` may include
 * labels, as in name{script="ack"}.
 */
MUST_CHECK enum rc histogram_write(const struct histogram *histogram, const char *metric,
                                   struct buffer *out);

#endif
