/* unserved.c: closes sessions that cannot start because the store is unavailable. */
#include "hub/resume/unserved.h"

#include <utlist.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "hub/session/hub_state.h"

#define CLOSE_RESTART 4201
#define WAIT_US (5 * INT64_C(1000000)) /* a client waits for 10 s */
#define RECONNECT_MS 15000             /* maximum; the minimum is half */

static bool
is_unserved(const struct session *session, int64_t now_us)
{
    return session->state < SESSION_PENDING && now_us - session->client.attached_us >= WAIT_US &&
           !store_serves(session->hub->store, session->client.user);
}

void
unserved_sweep(struct hub *hub)
{
    const int64_t now_us = clock_monotonic_us();
    struct session *session, *next;

    if (store_is_up(hub->store) && store_is_complete(hub->store))
        return;
    DL_FOREACH_SAFE (hub->sessions, session, next) {
        struct backoff reconnect = {.base_ms = RECONNECT_MS, .cap_ms = RECONNECT_MS};

        if (is_unserved(session, now_us))
            session->socket.transport->close(session->socket.handle, CLOSE_RESTART,
                                             "store is unavailable", backoff_next_ms(&reconnect));
    }
}
