/* stall.c: detects clients that have read too slowly for too long. */
#include "hub/stall.h"

#include "base/clock.h"
#include "hub/hub_state.h"
#include "hub/queue.h"
#include "hub/session.h"
#include "hub/shed.h"

#define SLOW_GRACE_US                                                                              \
    1000000 /* a client that reads something every second is behind, but not stuck */

void
session_count_skipped(struct session *session, size_t bytes)
{
    session->stall.skipped_bytes += bytes;
}

void
session_accepted(struct session *session)
{
    session->stall.accepted_us = clock_monotonic_us();
}

const char *
session_slow(const struct session *session, int64_t now_us)
{
    const struct config *config = session->hub->config;
    const struct notification *first = session_next_queued(session);
    int64_t since_us = session->stall.accepted_us;

    if (!session->is_blocked)
        return NULL;
    if (hub_is_over_limit(session->hub) && now_us - session->stall.accepted_us >= SLOW_GRACE_US)
        return "unsent bytes of all clients exceed twice shed_bytes";
    if (session->outbound.bytes + session->stall.skipped_bytes >= (size_t)config->gate.slow_bytes &&
        now_us - session->stall.accepted_us >= SLOW_GRACE_US)
        return "unsent bytes exceed slow_bytes";
    if (first != NULL) {
        since_us = first->made_us;
        if (since_us < session->outbound.since_us)
            since_us = session->outbound.since_us; /* queued later than created */
    }
    return now_us - since_us > config->gate.slow_age_ms * 1000
               ? "the oldest unsent notification is older than slow_age"
               : NULL;
}
