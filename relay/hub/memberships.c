/*
 * memberships.c: the memberships of a session: the user, the groups of the token, and those of
 * clairon.member, which the store returns and which change later.
 */
#include "hub/hub_private.h"

#include <string.h>

#include "base/states.h"

/* ---- whether the memberships are current */

/* After a transition that audience.h does not list, the memberships are requested again. */
static void
groups_set_state(struct session_groups *groups, enum groups_state state, struct stats *stats)
{
    static const struct states STATES = {
        .object = "groups",
        .names = {"current", "wanted", "requested", "stale"},
        .before = {[GROUPS_CURRENT] = 1u << GROUPS_REQUESTED,
                   [GROUPS_WANTED] =
                       1u << GROUPS_CURRENT | 1u << GROUPS_REQUESTED | 1u << GROUPS_STALE,
                   [GROUPS_REQUESTED] = 1u << GROUPS_WANTED,
                   [GROUPS_STALE] = 1u << GROUPS_REQUESTED},
    };

    groups->state = states_allow(&STATES, groups->state, state, stats) ? state : GROUPS_WANTED;
}

void
groups_want(struct session_groups *groups, struct stats *stats)
{
    if (groups->state != GROUPS_WANTED)
        groups_set_state(groups, GROUPS_WANTED, stats);
}

void
groups_begin_request(struct session_groups *groups, struct stats *stats)
{
    groups_set_state(groups, GROUPS_REQUESTED, stats);
}

bool
groups_outdate(struct session_groups *groups, struct stats *stats)
{
    if (groups->state == GROUPS_REQUESTED)
        groups_set_state(groups, GROUPS_STALE, stats);
    return groups->state == GROUPS_STALE;
}

void
groups_end_request(struct session_groups *groups, bool has_succeeded, struct stats *stats)
{
    bool is_current = has_succeeded && groups->state == GROUPS_REQUESTED;

    groups_set_state(groups, is_current ? GROUPS_CURRENT : GROUPS_WANTED, stats);
}

/* ---- the start of a session */

static void
join(struct session *session, const char *kind, const char *target)
{
    char key[AUDIENCE_KEY_MAX];
    size_t len;
    struct bytes kind_bytes = {(const unsigned char *)kind, strlen(kind)};
    struct bytes target_bytes = {(const unsigned char *)target, strlen(target)};

    if (audience_key(kind_bytes, target_bytes, key, &len))
        groups_join(&session->groups, &session->hub->audiences, session, key, len, false);
}

void
session_begin_groups(struct session *session, const struct session_request *request)
{
    struct hub *hub = session->hub;

    groups_want(&session->groups, hub->stats);
    groups_join(&session->groups, &hub->audiences, session, AUDIENCE_ALL, sizeof(AUDIENCE_ALL) - 1,
                false);
    join(session, "USER", request->user);
    for (size_t i = 0; i < request->group_count; i++) {
        /* A token can grant only groups, not another user or ALL. */
        if (strcmp(request->groups[i].audience, "USER") != 0)
            join(session, request->groups[i].audience, request->groups[i].target);
    }
}

/* ---- requests and changes */

/* If the reply may predate a change, another request follows. */
static bool
will_load_groups(struct session *session)
{
    return groups_outdate(&session->groups, session->hub->stats) ||
           (session->state == SESSION_LOADING && groups_are_wanted(&session->groups));
}

static void
on_groups(void *ctx, enum rc rc, const struct bytes *groups, size_t count)
{
    struct session *session = ctx;
    const uint64_t before = groups_hash(&session->groups);
    bool has_gained;

    groups_end_request(&session->groups, rc == RC_OK, session->hub->stats);
    if (!session_reply_arrived(session, rc))
        return;
    session_mark(session, READY_ADVANCE); /* repeats a STALE request */
    has_gained = groups_lack(&session->groups, groups, count);
    groups_replace(&session->groups, &session->hub->audiences, session, groups, count);
    if (session->state == SESSION_LOADING)
        return;
    if (has_gained)
        session_rewind(session);
    if (groups_hash(&session->groups) != before)
        lists_reload(session, NULL, false);
}

void
session_request_groups(struct session *session)
{
    if (store_groups(session->hub->store, session->client.user, on_groups, session) != RC_OK)
        return; /* session_advance retries when the store is available again */
    groups_begin_request(&session->groups, session->hub->stats);
    session->requests.count++;
}

void
session_reload_groups(struct session *session)
{
    if (will_load_groups(session))
        return;
    groups_want(&session->groups, session->hub->stats);
    session_request_groups(session);
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
    session_rewind(session); /* its pending notifications can be sent now */
}
