/* stats.c: writes counters, gauges and histograms in Prometheus' text format. */
#include "base/stats.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "decoder/protocol/version.h"

static const struct {
    const char *metric;
    enum stats_kind kind;
    const char *help;
} stats_names[STAT_COUNT] = {
#define STATS_NAME(name, metric, kind, help) [STAT_##name] = {metric, STATS_##kind, help},
    STATS_LIST(STATS_NAME)
#undef STATS_NAME
};

static const struct {
    const char *metric;
    const char *help;
} times_names[TIME_COUNT] = {
#define TIMES_NAME(name, metric, help) [TIME_##name] = {metric, help},
    TIMES_LIST(TIMES_NAME)
#undef TIMES_NAME
};

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

/*
 * Writes the samples in Prometheus' text format, without HELP and TYPE. `metric` may include
 * labels, as in name{script="ack"}.
 */
static enum rc
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

static bool
is_gauge(enum metric stat)
{
    return stats_names[stat].kind != STATS_COUNTER;
}

static uint64_t
merge(enum stats_kind kind, uint64_t a, uint64_t b)
{
    switch (kind) {
    case STATS_GAUGE:
        return a > b ? a : b;
    case STATS_GAUGE_MIN:
        return a < b ? a : b;
    case STATS_GAUGE_NEAREST:
        return a == 0 || (b != 0 && b < a) ? b : a;
    case STATS_COUNTER:
    case STATS_GAUGE_SUM:
        break;
    }
    return a + b;
}

uint64_t
stats_total(const struct stats *stats, enum metric stat)
{
    bool is_first = true;
    uint64_t total = 0;

    if (stats->all == NULL)
        return stats->values[stat];
    for (int i = 0; i < stats->all_count; i++) {
        const struct stats *one = &stats->all[i];

        if (one->is_dead && is_gauge(stat))
            continue;
        total =
            is_first ? one->values[stat] : merge(stats_names[stat].kind, total, one->values[stat]);
        is_first = false;
    }
    return total;
}

void
stats_reset_gauges(struct stats *stats)
{
    for (int i = 0; i < STAT_COUNT; i++)
        if (is_gauge((enum metric)i))
            stats->values[i] = 0;
}

/* Writes HELP and TYPE once for adjacent metrics that differ only in labels. */
static enum rc
write_head(const char *metric, const char *before, const char *kind, const char *help,
           struct buffer *out)
{
    int len = (int)strcspn(metric, "{");

    if (before != NULL && strncmp(metric, before, (size_t)len + 1) == 0)
        return RC_OK;
    return buffer_addf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, metric, help, len, metric,
                       kind);
}

static enum rc
write_value(const struct stats *stats, enum metric stat, struct buffer *out)
{
    static const char unit[] = "_seconds";
    const char *metric = stats_names[stat].metric;
    uint64_t value = stats_total(stats, stat);
    const size_t len = strcspn(metric, "{");

    if (len > sizeof(unit) &&
        memcmp(metric + len - (sizeof(unit) - 1), unit, sizeof(unit) - 1) == 0)
        return buffer_addf(out, "%s %" PRIu64 ".%06" PRIu64 "\n", metric, value / 1000000,
                           value % 1000000);
    return buffer_addf(out, "%s %" PRIu64 "\n", metric, value);
}

static enum rc
write_times(const struct stats *stats, enum time_of what, struct buffer *out)
{
    struct histogram total = {0};

    if (stats->all == NULL)
        return histogram_write(&stats->times[what], times_names[what].metric, out);
    for (int i = 0; i < stats->all_count; i++) {
        const struct histogram *one = &stats->all[i].times[what];

        for (size_t step = 0; step <= HISTOGRAM_STEP_COUNT; step++)
            total.counts[step] += one->counts[step];
        total.sum_us += one->sum_us;
    }
    return histogram_write(&total, times_names[what].metric, out);
}

enum rc
stats_write(const struct stats *stats, struct buffer *out)
{
    enum rc rc = buffer_addf(out,
                             "# HELP clairon_build_info Version of the relay; always 1\n"
                             "# TYPE clairon_build_info gauge\n"
                             "clairon_build_info{version=\"%s\"} 1\n",
                             CLAIRON_VERSION);

    for (int i = 0; i < STAT_COUNT && rc == RC_OK; i++) {
        rc = write_head(stats_names[i].metric, i > 0 ? stats_names[i - 1].metric : NULL,
                        is_gauge((enum metric)i) ? "gauge" : "counter", stats_names[i].help, out);
        if (rc == RC_OK)
            rc = write_value(stats, (enum metric)i, out);
    }
    for (int i = 0; i < TIME_COUNT && rc == RC_OK; i++) {
        rc = write_head(times_names[i].metric, i > 0 ? times_names[i - 1].metric : NULL,
                        "histogram", times_names[i].help, out);
        if (rc == RC_OK)
            rc = write_times(stats, (enum time_of)i, out);
    }
    return rc;
}

enum rc
stats_write_json(const struct stats *stats, struct buffer *out)
{
    enum rc rc = RC_OK;

    for (int i = 0; i < STAT_COUNT && rc == RC_OK; i++) {
        const char *metric = stats_names[i].metric;

        rc = buffer_add(out, i == 0 ? "{" : ",", 1);
        if (rc == RC_OK)
            rc = buffer_add_json(out, metric, strlen(metric));
        if (rc == RC_OK)
            rc = buffer_addf(out, ":%" PRIu64, stats_total(stats, (enum metric)i));
    }
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}
