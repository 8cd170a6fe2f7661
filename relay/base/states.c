/* states.c: checks transitions between states. */
#include "base/states.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/rates.h"

static struct throttle errors;

bool
states_allow(const struct states *states, unsigned from, unsigned to, struct stats *stats)
{
    unsigned skipped;

    if ((states->before[to] & 1u << from) != 0)
        return true;
#ifdef CLAIRON_DEBUG
    abort();
#endif
    if (stats != NULL)
        stats_add(stats, STAT_INTERNAL_ERRORS, 1);
    if (throttle_allows(&errors, clock_monotonic_us(), &skipped))
        log_error("internal", "invalid transition, please report it",
                  LOG_TEXT("object", states->object), LOG_TEXT("from", states->names[from]),
                  LOG_TEXT("to", states->names[to]), LOG_UINT("skipped", skipped));
    return false;
}
