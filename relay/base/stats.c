/* stats.c: writes the counters and gauges as Prometheus reads them. */
#include "base/stats.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static const struct {
    const char *metric;
    const char *kind;
    const char *help;
} stats_names[STAT_COUNT] = {
#define STATS_NAME(name, metric, kind, help) [STAT_##name] = {metric, kind, help},
    STATS_LIST(STATS_NAME)
#undef STATS_NAME
};

static bool
is_gauge(enum metric stat)
{
    return strcmp(stats_names[stat].kind, "gauge") == 0;
}

uint64_t
stats_total(const struct stats *stats, enum metric stat)
{
    bool takes_largest =
        is_gauge(stat) && stat != STAT_GATE_CONNECTIONS && stat != STAT_GATE_STREAMS;
    uint64_t total = 0;

    if (stats->all == NULL)
        return stats->values[stat];
    for (int i = 0; i < stats->all_count; i++) {
        uint64_t value = stats->all[i].values[stat];

        if (!takes_largest)
            total += value;
        else if (value > total)
            total = value;
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

/* Once for all that differ in their labels only. */
static enum rc
write_head(int stat, struct buffer *out)
{
    const char *metric = stats_names[stat].metric;
    int len = (int)strcspn(metric, "{");

    if (stat > 0 && strncmp(metric, stats_names[stat - 1].metric, (size_t)len + 1) == 0)
        return RC_OK;
    return buffer_addf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, metric, stats_names[stat].help,
                       len, metric, stats_names[stat].kind);
}

enum rc
stats_write(const struct stats *stats, struct buffer *out)
{
    enum rc rc = RC_OK;

    for (int i = 0; i < STAT_COUNT && rc == RC_OK; i++) {
        rc = write_head(i, out);
        if (rc == RC_OK)
            rc = buffer_addf(out, "%s %" PRIu64 "\n", stats_names[i].metric,
                             stats_total(stats, (enum metric)i));
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
