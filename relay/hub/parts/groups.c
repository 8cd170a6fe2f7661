/* groups.c: the audiences of a session, and whether they are current. */
#include "hub/parts/groups.h"

#include <stdlib.h>

/* Aborts on a transition that groups.h does not name. */
static void
groups_set_state(struct session_groups *groups, enum groups_state state)
{
    static const unsigned before[] = {
        [GROUPS_CURRENT] = 1u << GROUPS_REQUESTED,
        [GROUPS_WANTED] = 1u << GROUPS_CURRENT | 1u << GROUPS_REQUESTED | 1u << GROUPS_STALE,
        [GROUPS_REQUESTED] = 1u << GROUPS_WANTED,
        [GROUPS_STALE] = 1u << GROUPS_REQUESTED,
    };

    if ((before[state] & 1u << groups->state) == 0)
        abort();
    groups->state = state;
}

void
groups_want(struct session_groups *groups)
{
    if (groups->state != GROUPS_WANTED)
        groups_set_state(groups, GROUPS_WANTED);
}

void
groups_begin_request(struct session_groups *groups)
{
    groups_set_state(groups, GROUPS_REQUESTED);
}

bool
groups_outdate(struct session_groups *groups)
{
    if (groups->state == GROUPS_REQUESTED)
        groups_set_state(groups, GROUPS_STALE);
    return groups->state == GROUPS_STALE;
}

void
groups_end_request(struct session_groups *groups, bool has_succeeded)
{
    bool is_current = has_succeeded && groups->state == GROUPS_REQUESTED;

    groups_set_state(groups, is_current ? GROUPS_CURRENT : GROUPS_WANTED);
}

void
groups_join(struct session_groups *groups, struct audience **all, struct session *session,
            const char *key, size_t len, bool is_granted)
{
    audience_join(all, &groups->memberships, session, key, len, is_granted);
}

void
groups_leave(struct session_groups *groups, struct audience **all, const char *key, size_t len)
{
    audience_leave(all, &groups->memberships, key, len);
}

void
groups_replace(struct session_groups *groups, struct audience **all, struct session *session,
               const struct bytes *keys, size_t count)
{
    audience_leave_all(all, &groups->memberships, true);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].len > 0 && keys[i].len < AUDIENCE_KEY_MAX)
            groups_join(groups, all, session, (const char *)keys[i].at, keys[i].len, true);
    }
}

void
groups_clear(struct session_groups *groups, struct audience **all)
{
    audience_leave_all(all, &groups->memberships, false);
}

bool
groups_lack(const struct session_groups *groups, const struct bytes *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!audience_is_granted(groups->memberships, (const char *)keys[i].at, keys[i].len))
            return true;
    }
    return false;
}

bool
groups_have(const struct session_groups *groups, struct bytes kind, struct bytes target)
{
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    if (audience_is_composite(kind))
        return audience_has_parts(groups->memberships, kind, target);
    return audience_key(kind, target, key, &len) && audience_has(groups->memberships, key, len);
}
