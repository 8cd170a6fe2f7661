/* state.c: changes the states of a session, and frees it. */
#include "hub/state.h"

#include <stdlib.h>

#include "base/pool.h"
#include "base/states.h"
#include "hub/hub_state.h"
#include "hub/ready_list.h"
#include "hub/row_order.h"
#include "hub/session.h"

static struct pool sessions = {.size = sizeof(struct session)};

void
session_set_state(struct session *session, enum session_state state)
{
    static const struct states STATES = {
        .object = "session",
        .names = {"loading", "pending", "stream", "live", "failed", "closed"},
        .before = {[SESSION_PENDING] = 1u << SESSION_LOADING | 1u << SESSION_STREAM,
                   [SESSION_STREAM] = 1u << SESSION_PENDING | 1u << SESSION_LIVE,
                   [SESSION_LIVE] = 1u << SESSION_STREAM,
                   [SESSION_CLOSED] = ~(1u << SESSION_CLOSED)},
    };

    if (!states_allow(&STATES, session->state, state, session->hub->stats)) {
        if (session->state == SESSION_CLOSED)
            return;
        state = SESSION_FAILED;
        session_mark(session, READY_ADVANCE);
    }
    session->state = state;
}

struct session *
session_new(void)
{
    return pool_alloc(&sessions);
}

const char *
session_conn(const struct session *session)
{
    return session->client.conn;
}

void
session_free_if_done(struct session *session)
{
    if (session->state != SESSION_CLOSED || session->requests.count > 0 || session->ready != 0)
        return;
    free(session->client.user);
    free(session->resume.pos);
    free(session->pending.early);
    subscription_free(&session->subscription);
    inflight_free(&session->inflight);
    row_order_free(session);
    buffer_free(&session->control.frames);
    pool_release(&sessions, session);
}
