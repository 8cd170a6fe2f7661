/* states.c: checks transitions between states. */
#include "base/states.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/rates.h"
#include "base/text.h"

static struct throttles errors;

bool
states_allow(const struct states *states, unsigned from, unsigned to, struct stats *stats)
{
    uint64_t kind;
    unsigned skipped;

    if ((states->before[to] & 1u << from) != 0)
        return true;
#ifdef CLAIRON_DEBUG
    abort();
#endif
    if (stats != NULL)
        stats_add(stats, STAT_INTERNAL_ERRORS, 1);
    kind = hash_bytes(HASH_START, states->object, strlen(states->object));
    kind = hash_bytes(kind, &(unsigned[]){from, to}, 2 * sizeof(unsigned));
    if (throttle_allows(throttles_find(&errors, kind), clock_monotonic_us(), &skipped))
        log_error("internal", "invalid transition, please report it",
                  LOG_TEXT("object", states->object), LOG_TEXT("from", states->names[from]),
                  LOG_TEXT("to", states->names[to]), LOG_UINT("suppressed", skipped));
    return false;
}
