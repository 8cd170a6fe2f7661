/*
 * audience.h: the members of each audience, the audiences of each session, and whether they are
 * current.
 */
#ifndef CLAIRON_HUB_AUDIENCE_H
#define CLAIRON_HUB_AUDIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <uthash.h>

#include "base/memory.h"
#include "base/stats.h"
#include "wire/audience_name.h"
#include "wire/bytes.h"
#include "wire/frame.h"

struct hub;
struct session;

/* "USER:u1", "STRUCTURE:s1" or "ALL". Freed with its last member. */
struct audience {
    UT_hash_handle hh;
    struct membership *members; /* utlist, linked by next and prev */
    /* of the match with this number: the last of the links to targets, and a candidate */
    uint64_t match_number;
    uint32_t last_link;
    uint32_t member_count;
    bool is_candidate;
    char key[]; /* of hh.keylen bytes */
};

struct membership {
    struct session *session;
    struct audience *audience;
    struct membership *next;
    struct membership *prev;
    struct membership *next_of_session;
    bool is_granted; /* granted by clairon.member; otherwise from the token */
};

#define AUDIENCE_KEY_MAX 512
#define AUDIENCE_ALL "ALL" /* also the audience's key, because ALL has no targets */

static inline bool
audience_is_all(struct bytes kind)
{
    return kind.len == sizeof(AUDIENCE_ALL) - 1 && memcmp(kind.at, AUDIENCE_ALL, kind.len) == 0;
}

/* Writes "kind:target". False if the result is too long: such an audience has no members. */
bool audience_key(struct bytes kind, struct bytes target, char ret_key[AUDIENCE_KEY_MAX],
                  size_t *ret_len);

struct audience *audience_find(struct audience *all, const char *key, size_t len);

struct audience_match_target {
    uint32_t session; /* `parts` is of this session, counted from 1 */
    uint32_t parts;   /* number of parts that the session belongs to */
};

struct audience_match_link {
    uint32_t target;
    uint32_t before; /* previous link of the group: its index + 1; 0: none */
};

/*
 * The targets of one notification for a composite audience, linked to the groups that they consist
 * of. So a session is compared with the targets of its groups only, not with each target.
 */
struct audience_match {
    uint64_t number; /* never 0 */
    size_t part_count;
    struct audience_match_target *targets;
    struct audience_match_link *links;
    uint32_t link_count;
    uint32_t session_count;
    /* the smallest group of each target: all recipients are members of these */
    struct audience **candidates;
    size_t candidate_count;
};

/* Call audience_match_end before the next match. */
void audience_match_begin(struct audience_match *match, struct audience *all, struct bytes kind,
                          struct bytes targets, size_t target_count);
/* True if the session belongs to all parts of a target. */
bool audience_match_has(struct audience_match *match, const struct membership *of_session);
void audience_match_end(struct audience_match *match);

/* ---- the audiences of a session */

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

/* ---- the state of the memberships: memberships.c */

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

/* ---- the memberships: audience.c */

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

/* ---- the sessions of a user, and recipients */

/* Returns the sessions of a user, as members of an audience; NULL: none. */
struct audience *hub_find_user(struct hub *hub, struct bytes user);
struct membership *hub_sessions_of_user(struct hub *hub, const char *user);
size_t hub_user_sessions(struct hub *hub, const char *user);

/* True if the session belongs to the notification's audience. */
bool session_is_recipient(const struct session *session, const struct frame *frame);

#endif
