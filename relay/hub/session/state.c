/* state.c: changes the states of a session, and frees it. */
#include "hub/session/state.h"

#include <stdlib.h>

#include "base/pool.h"
#include "hub/session/backlog.h"
#include "hub/session/hub_state.h"
#include "hub/session/row_order.h"
#include "hub/session/session.h"

static struct pool sessions = {.size = sizeof(struct session)};

void
session_set_state(struct session *session, enum session_state state)
{
    static const unsigned before[] = {
        [SESSION_GROUPING] = 0,
        [SESSION_CHECKING] = 1u << SESSION_GROUPING,
        [SESSION_INBOX] = 1u << SESSION_CHECKING | 1u << SESSION_CATCHING_UP,
        [SESSION_CATCHING_UP] = 1u << SESSION_INBOX | 1u << SESSION_LIVE,
        [SESSION_LIVE] = 1u << SESSION_CATCHING_UP,
        [SESSION_CLOSED] = ~(1u << SESSION_CLOSED),
    };

    if ((before[state] & 1u << session->state) == 0)
        abort();
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
    resume_free(&session->resume);
    subscription_free(&session->subscription);
    inflight_free(&session->inflight);
    inbox_end(&session->inbox);
    backlog_free(session);
    row_order_free(session);
    buffer_free(&session->control.frames);
    pool_release(&sessions, session);
}
