/* groups.h: the audiences of a session, and whether they are current. */
#ifndef CLAIRON_HUB_GROUPS_H
#define CLAIRON_HUB_GROUPS_H

#include "base/buffer.h"
#include "base/stats.h"
#include "hub/audience.h"

/*
 * The memberships of clairon.member in the store's last reply. Notifications are matched against
 * them only in the state CURRENT. Only the functions below change the state.
 *
 * CURRENT: changes are applied one by one. Next: WANTED, if changes may have been missed.
 *
 * WANTED: the memberships must be requested, immediately or when the store is up again. A new
 * session starts in this state. Next: REQUESTED.
 *
 * REQUESTED: the request is pending. Next: CURRENT, or WANTED if it failed, or STALE.
 *
 * STALE: the request is pending, but its reply may predate a change. Next: WANTED.
 */
enum groups_state { GROUPS_CURRENT, GROUPS_WANTED, GROUPS_REQUESTED, GROUPS_STALE };

/* Initially zeroed: no membership. The parameter `all` below contains the audiences of the hub. */
struct session_groups {
    struct membership *memberships; /* linked by next_of_session; includes groups of the token */
    enum groups_state state;
    uint64_t compared; /* number of the audience_match that was last compared with them */
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

/* The memberships must be requested. No request may be pending. */
void groups_want(struct session_groups *groups, struct stats *stats);

/* The request was sent. */
void groups_begin_request(struct session_groups *groups, struct stats *stats);

/*
 * Returns true if a request is pending. Its reply may predate a change, so the memberships become
 * STALE.
 */
bool groups_outdate(struct session_groups *groups, struct stats *stats);

/* The store replied, or the request failed. The state becomes CURRENT or WANTED. */
void groups_end_request(struct session_groups *groups, bool has_succeeded, struct stats *stats);

/* Adds the session to an audience. A membership from the token does not change. */
void groups_join(struct session_groups *groups, struct audience **all, struct session *session,
                 const char *key, size_t len, bool is_granted);

/* Ends a membership granted by clairon.member. */
void groups_leave(struct session_groups *groups, struct audience **all, const char *key,
                  size_t len);

/* Replaces all memberships granted by clairon.member by these keys. */
void groups_replace(struct session_groups *groups, struct audience **all, struct session *session,
                    const struct bytes *keys, size_t count);

/* Ends all memberships, including memberships from the token. */
void groups_clear(struct session_groups *groups, struct audience **all);

/* True if clairon.member has not granted one of these keys yet. */
bool groups_lack(const struct session_groups *groups, const struct bytes *keys, size_t count);

/* True if the session belongs to the audience with this kind and target, composite or not. */
bool groups_have(const struct session_groups *groups, struct bytes kind, struct bytes target);

/*
 * Writes the groups of the token as a JSON object of arrays. Queries for rows add the groups of
 * clairon.member.
 */
MUST_CHECK enum rc groups_write_token(const struct session_groups *groups, struct buffer *out);

/* Returns a hash that is equal for equal sets of groups, in any order. */
uint64_t groups_hash(const struct session_groups *groups);

#endif
