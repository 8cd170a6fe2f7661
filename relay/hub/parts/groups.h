/* groups.h: the audiences of a session, and whether they are current. */
#ifndef CLAIRON_HUB_PARTS_GROUPS_H
#define CLAIRON_HUB_PARTS_GROUPS_H

#include "base/buffer.h"
#include "hub/fanout/audience.h"

/*
 * The memberships of clairon.member, as of the store's last reply. No notification is matched
 * against them unless they are CURRENT. Only the functions below change the state.
 *
 * CURRENT: changes are applied one by one. Next: WANTED, if changes may have been missed.
 *
 * WANTED: they are to be requested, now or when the store is back. A new session begins here. Next:
 * REQUESTED.
 *
 * REQUESTED: the request is pending. Next: CURRENT, or WANTED if it failed, or STALE.
 *
 * STALE: the request is pending, but its reply may predate a change. Next: WANTED.
 */
enum groups_state { GROUPS_CURRENT, GROUPS_WANTED, GROUPS_REQUESTED, GROUPS_STALE };

/* Zeroed at the start: no membership. `all` below are the audiences of the hub. */
struct session_groups {
    struct membership *memberships; /* by next_of_session; of the token too */
    enum groups_state state;
};

static inline bool
groups_are_current(const struct session_groups *groups)
{
    return groups->state == GROUPS_CURRENT;
}

static inline bool
groups_are_wanted(const struct session_groups *groups)
{
    return groups->state == GROUPS_WANTED;
}

/* They have to be requested. No request is pending. */
void groups_want(struct session_groups *groups);

/* The request was sent. */
void groups_begin_request(struct session_groups *groups);

/* True if a request is pending, whose reply may predate a change: they become STALE. */
bool groups_outdate(struct session_groups *groups);

/* The store replied, or the request failed. They are CURRENT or WANTED afterwards. */
void groups_end_request(struct session_groups *groups, bool has_succeeded);

/* Adds the session to an audience; a membership by token remains one. */
void groups_join(struct session_groups *groups, struct audience **all, struct session *session,
                 const char *key, size_t len, bool is_granted);

/* Ends the membership that clairon.member granted. */
void groups_leave(struct session_groups *groups, struct audience **all, const char *key,
                  size_t len);

/* Replaces all granted memberships by these keys. */
void groups_replace(struct session_groups *groups, struct audience **all, struct session *session,
                    const struct bytes *keys, size_t count);

/* Ends all memberships, also those by token. */
void groups_clear(struct session_groups *groups, struct audience **all);

/* True if one of these keys is not granted yet. */
bool groups_lack(const struct session_groups *groups, const struct bytes *keys, size_t count);

/* True if the session belongs to the audience with this kind and target, composite or not. */
bool groups_have(const struct session_groups *groups, struct bytes kind, struct bytes target);

/*
 * The groups of the token, as a JSON object of arrays. Reads of rows add those of clairon.member by
 * themselves.
 */
MUST_CHECK enum rc groups_write_token(const struct session_groups *groups, struct buffer *out);

/*
 * The groups of these kinds, sorted: sessions with equal texts belong to the same groups. The
 * audience may be composite.
 */
MUST_CHECK enum rc groups_write_keys(const struct session_groups *groups, const char *audience,
                                     struct buffer *out);

/* The same for equal sets of groups, in any order. */
uint64_t groups_hash(const struct session_groups *groups);

/* True if it belongs to all parts of a composite audience that were split already. */
static inline bool
groups_have_parts(const struct session_groups *groups, const struct audience_parts *parts)
{
    return audience_has_all(groups->memberships, parts);
}

#endif
