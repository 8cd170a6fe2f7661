/* stats.c: writes the counters and gauges as Prometheus reads them. */
#include "base/stats.h"

#include <inttypes.h>

static const struct {
    const char *metric;
    const char *kind;
    const char *help;
} stats_names[STAT_COUNT] = {
#define STATS_NAME(name, metric, kind, help) [STAT_##name] = {metric, kind, help},
    STATS_LIST(STATS_NAME)
#undef STATS_NAME
};

enum rc
stats_write(const struct stats *stats, struct buffer *out)
{
    for (int i = 0; i < STAT_COUNT; i++) {
        enum rc rc = buffer_addf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n",
                                 stats_names[i].metric, stats_names[i].help, stats_names[i].metric,
                                 stats_names[i].kind, stats_names[i].metric, stats->values[i]);

        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}
