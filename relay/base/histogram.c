/* histogram.c: counts durations in fixed buckets and writes them in Prometheus' format. */
#include "base/histogram.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const int64_t step_ends_us[] = {
#define STEP_END(end_us, text) end_us,
    HISTOGRAM_STEPS(STEP_END)
#undef STEP_END
};

static const char *const step_texts[] = {
#define STEP_TEXT(end_us, text) text,
    HISTOGRAM_STEPS(STEP_TEXT)
#undef STEP_TEXT
};

void
histogram_add(struct histogram *histogram, int64_t elapsed_us)
{
    size_t step = 0;

    if (elapsed_us < 0)
        elapsed_us = 0;
    while (step < HISTOGRAM_STEP_COUNT && elapsed_us > step_ends_us[step])
        step++;
    histogram->counts[step]++;
    histogram->sum_us += (uint64_t)elapsed_us;
}

void
histogram_sum(struct histogram *histogram, const struct histogram *other)
{
    for (size_t i = 0; i <= HISTOGRAM_STEP_COUNT; i++)
        histogram->counts[i] += other->counts[i];
    histogram->sum_us += other->sum_us;
}

/* The labels of name{a="b"} without braces; without labels both pointers are equal. */
struct labels {
    int name_len;
    int len;
    const char *at;
    const char *comma; /* separator before a further label */
};

static struct labels
labels_of(const char *metric)
{
    size_t name_len = strcspn(metric, "{");
    size_t len = strlen(metric) - name_len;

    return (struct labels){.name_len = (int)name_len,
                           .len = len > 2 ? (int)len - 2 : 0,
                           .at = len > 2 ? metric + name_len + 1 : "",
                           .comma = len > 2 ? "," : ""};
}

enum rc
histogram_write(const struct histogram *histogram, const char *metric, struct buffer *out)
{
    struct labels labels = labels_of(metric);
    uint64_t count = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; i <= HISTOGRAM_STEP_COUNT && rc == RC_OK; i++) {
        count += histogram->counts[i];
        rc = buffer_addf(out, "%.*s_bucket{%.*s%sle=\"%s\"} %" PRIu64 "\n", labels.name_len, metric,
                         labels.len, labels.at, labels.comma,
                         i < HISTOGRAM_STEP_COUNT ? step_texts[i] : "+Inf", count);
    }
    if (rc != RC_OK)
        return rc;
    return buffer_addf(out,
                       "%.*s_sum%s %" PRIu64 ".%06" PRIu64 "\n"
                       "%.*s_count%s %" PRIu64 "\n",
                       labels.name_len, metric, metric + labels.name_len,
                       histogram->sum_us / 1000000, histogram->sum_us % 1000000, labels.name_len,
                       metric, metric + labels.name_len, count);
}
