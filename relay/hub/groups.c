/* groups.c: the audiences of a session, and whether they are current. */
#include "hub/groups.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/states.h"

/* After a transition that groups.h does not list, the memberships are requested again. */
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

/* ---- strings */

/* Returns the kind of the key "STRUCTURE:s1"; empty for ALL. */
static struct bytes
kind_of(const struct membership *membership)
{
    const struct audience *audience = membership->audience;
    const char *colon = memchr(audience->key, ':', audience->key_len);

    return (struct bytes){(const unsigned char *)audience->key,
                          colon != NULL ? (size_t)(colon - audience->key) : 0};
}

static struct bytes
target_of(const struct membership *membership)
{
    size_t kind_len = kind_of(membership).len + 1;

    return (struct bytes){(const unsigned char *)membership->audience->key + kind_len,
                          membership->audience->key_len - kind_len};
}

/* True for a group of the token; false for the user and ALL. */
static bool
is_of_token(const struct membership *membership)
{
    const struct bytes user = {(const unsigned char *)"USER", 4};
    struct bytes kind = kind_of(membership);

    return !membership->is_granted && kind.len > 0 && !bytes_equal(kind, user);
}

/* Returns the next group of the token with this kind, from `at` on. */
static const struct membership *
next_of_kind(const struct membership *at, struct bytes kind)
{
    while (at != NULL && !(is_of_token(at) && bytes_equal(kind_of(at), kind)))
        at = at->next_of_session;
    return at;
}

static enum rc
write_kind(const struct membership *first, struct buffer *out)
{
    const struct bytes kind = kind_of(first);
    enum rc rc = buffer_add_json(out, (const char *)kind.at, kind.len);

    if (rc == RC_OK)
        rc = buffer_add(out, ":", 1);
    for (const struct membership *at = first; at != NULL && rc == RC_OK;
         at = next_of_kind(at->next_of_session, kind)) {
        rc = buffer_add(out, at == first ? "[" : ",", 1);
        if (rc == RC_OK)
            rc = buffer_add_json(out, (const char *)target_of(at).at, target_of(at).len);
    }
    return rc == RC_OK ? buffer_add(out, "]", 1) : rc;
}

enum rc
groups_write_token(const struct session_groups *groups, struct buffer *out)
{
    enum rc rc = buffer_add(out, "{", 1);
    bool is_first = true;

    for (const struct membership *at = groups->memberships; at != NULL && rc == RC_OK;
         at = at->next_of_session) {
        if (!is_of_token(at) || next_of_kind(groups->memberships, kind_of(at)) != at)
            continue;
        rc = is_first ? RC_OK : buffer_add(out, ",", 1);
        if (rc == RC_OK)
            rc = write_kind(at, out);
        is_first = false;
    }
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

uint64_t
groups_hash(const struct session_groups *groups)
{
    uint64_t sum = 0;

    for (const struct membership *at = groups->memberships; at != NULL; at = at->next_of_session) {
        uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

        for (size_t i = 0; i < at->audience->key_len; i++)
            hash = (hash ^ (unsigned char)at->audience->key[i]) * UINT64_C(1099511628211);
        sum += hash;
    }
    return sum;
}
