/* advance.c: moves a session to the next step of its state. */
#include "hub/resume/advance.h"

#include "hub/resume/catch_up.h"
#include "hub/resume/check.h"
#include "hub/resume/memberships.h"
#include "hub/resume/read_pages.h"
#include "hub/resume/read_inbox.h"
#include "hub/session/followed.h"
#include "hub/session/hub_state.h"

static void
run_state(struct session *session)
{
    switch (session->state) {
    case SESSION_GROUPING:
        session_load_groups(session);
        return;
    case SESSION_CHECKING:
        session_check(session);
        return;
    case SESSION_INBOX:
        session_read_inbox(session);
        return;
    case SESSION_CATCHING_UP:
        session_catch_up(session);
        return;
    case SESSION_LIVE:
    case SESSION_CLOSED:
        return;
    }
}

void
session_advance(struct session *session)
{
    struct hub *hub = session->hub;

    if (session->state != SESSION_GROUPING && groups_are_wanted(&session->groups) &&
        store_is_up(hub->store))
        session_reload_groups(session);
    if (!session->requests.is_awaited && followed_is_ready(hub, session->client.own_shard))
        run_state(session);
    session_pass_turn(session);
}
