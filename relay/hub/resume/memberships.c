/* memberships.c: requests a session's memberships from the store, and applies their changes. */
#include "hub/resume/memberships.h"

#include "hub/delivery/session_inflight.h"
#include "hub/resume/request.h"
#include "hub/session/hub_state.h"
#include "hub/session/lists.h"
#include "hub/session/ready_list.h"
#include "hub/session/state.h"

/* Pending notifications of an audience that the user joins can be sent now. */
static void
reread_inbox(struct session *session)
{
    inbox_miss(&session->inbox);
    session_defer_inbox(session);
    session_mark(session, READY_REFILL);
}

/* If the reply may predate a change, another request follows. */
static bool
will_load_groups(struct session *session)
{
    return groups_outdate(&session->groups) || session->state == SESSION_GROUPING;
}

void
session_change_group(struct session *session, const char *key, size_t len, bool is_added)
{
    struct audience **all = &session->hub->audiences;

    if (will_load_groups(session))
        return;
    if (!is_added) {
        groups_leave(&session->groups, all, key, len);
        return;
    }
    groups_join(&session->groups, all, session, key, len, true);
    reread_inbox(session);
}

static void
on_groups(void *ctx, enum rc rc, const struct bytes *groups, size_t count)
{
    struct session *session = ctx;

    session->requests.is_awaited = false;
    groups_end_request(&session->groups, rc == RC_OK);
    if (!session_reply_arrived(session, rc))
        return;
    if (groups_are_current(&session->groups)) {
        groups_replace(&session->groups, &session->hub->audiences, session, groups, count);
        session_set_state(session, SESSION_CHECKING);
    }
    session_mark(session, READY_ADVANCE);
}

static void
on_groups_reloaded(void *ctx, enum rc rc, const struct bytes *groups, size_t count)
{
    struct session *session = ctx;
    uint64_t before = groups_hash(&session->groups);
    bool has_gained;

    groups_end_request(&session->groups, rc == RC_OK);
    if (!session_reply_arrived(session, rc))
        return;
    has_gained = groups_lack(&session->groups, groups, count);
    groups_replace(&session->groups, &session->hub->audiences, session, groups, count);
    if (has_gained)
        reread_inbox(session);
    if (groups_hash(&session->groups) != before)
        lists_reload(session, NULL, false);
    session_mark(session, READY_ADVANCE); /* session_advance repeats a STALE request */
}

void
session_reload_groups(struct session *session)
{
    if (will_load_groups(session))
        return;
    groups_want(&session->groups);
    if (store_groups(session->hub->store, session->client.user, on_groups_reloaded, session) !=
        RC_OK)
        return; /* session_advance retries when the store is available again */
    groups_begin_request(&session->groups);
    session->requests.count++;
}

void
session_load_groups(struct session *session)
{
    enum rc rc = store_groups(session->hub->store, session->client.user, on_groups, session);

    if (rc == RC_OK)
        groups_begin_request(&session->groups);
    session_await(session, rc);
}
