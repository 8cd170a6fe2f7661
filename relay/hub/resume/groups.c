/* groups.c: a session's memberships, as the store knows them. */
#include "hub/resume/groups.h"

#include "hub/delivery/session_inflight.h"
#include "hub/resume/request.h"
#include "hub/session/hub_state.h"
#include "hub/session/ready_list.h"
#include "hub/session/state.h"

/* Pending notifications of an audience that it joins can be sent now. */
static void
reread_inbox(struct session *session)
{
    inbox_miss(&session->inbox);
    session_defer_inbox(session);
    session_mark(session, READY_REFILL);
}

void
session_join(struct session *session, const char *key, size_t len)
{
    audience_join(&session->hub->audiences, &session->groups.memberships, session, key, len, true);
    reread_inbox(session);
}

static bool
gains(const struct session *session, const struct bytes *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!audience_is_granted(session->groups.memberships, (const char *)groups[i].at,
                                 groups[i].len))
            return true;
    }
    return false;
}

static void
set_groups(struct session *session, const struct bytes *groups, size_t count)
{
    struct hub *hub = session->hub;

    audience_leave_all(&hub->audiences, &session->groups.memberships, true);
    for (size_t i = 0; i < count; i++) {
        if (groups[i].len > 0 && groups[i].len < AUDIENCE_KEY_MAX)
            audience_join(&hub->audiences, &session->groups.memberships, session,
                          (const char *)groups[i].at, groups[i].len, true);
    }
}

static void
on_groups(void *ctx, enum rc rc, const struct bytes *groups, size_t count)
{
    struct session *session = ctx;

    session->requests.is_awaited = false;
    if (!session_answered(session, rc))
        return;
    if (session->groups.state != GROUPS_STALE) {
        set_groups(session, groups, count);
        session_set_state(session, SESSION_CHECKING);
    }
    session->groups.state = GROUPS_CURRENT;
    session_mark(session, READY_ADVANCE);
}

static void
on_groups_reloaded(void *ctx, enum rc rc, const struct bytes *groups, size_t count)
{
    struct session *session = ctx;
    bool was_stale = session->groups.state == GROUPS_STALE;
    bool has_gained;

    session->groups.state = rc == RC_OK ? GROUPS_CURRENT : GROUPS_WANTED;
    if (!session_answered(session, rc))
        return;
    has_gained = gains(session, groups, count);
    set_groups(session, groups, count);
    if (was_stale)
        session_reload_groups(session);
    if (has_gained)
        reread_inbox(session);
    session_mark(session, READY_ADVANCE);
}

bool
session_awaits_groups(const struct session *session)
{
    return session->state == SESSION_GROUPING || session->groups.state == GROUPS_REQUESTED ||
           session->groups.state == GROUPS_STALE;
}

void
session_reload_groups(struct session *session)
{
    if (session_awaits_groups(session)) {
        session->groups.state = GROUPS_STALE;
        return;
    }
    session->groups.state = GROUPS_WANTED;
    if (store_groups(session->hub->store, session->client.user, on_groups_reloaded, session) !=
        RC_OK)
        return; /* session_advance tries again when the store is back */
    session->groups.state = GROUPS_REQUESTED;
    session->requests.count++;
}

void
session_load_groups(struct session *session)
{
    session_await(session,
                  store_groups(session->hub->store, session->client.user, on_groups, session));
}
