/* audience.h: the members of each audience, and the audiences of each session. */
#ifndef CLAIRON_HUB_AUDIENCE_H
#define CLAIRON_HUB_AUDIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <uthash.h>

#include "wire/audience.h"
#include "wire/bytes.h"

struct session;

/* "USER:u1", "STRUCTURE:s1" or "ALL". Freed with its last member. */
struct audience {
    UT_hash_handle hh;
    struct membership *members; /* utlist, linked by next and prev */
    size_t member_count;
    /* of the match with this number: the last of the links to targets, and a candidate */
    uint64_t match_number;
    uint32_t last_link;
    bool is_candidate;
    size_t key_len;
    char key[];
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

/* Adds the session unless it is already a member. A membership from the token does not change. */
void audience_join(struct audience **all, struct membership **of_session, struct session *session,
                   const char *key, size_t len, bool is_granted);
/* Ends a membership granted by clairon.member. */
void audience_leave(struct audience **all, struct membership **of_session, const char *key,
                    size_t len);
/* Ends all memberships of a session, or only the memberships granted by clairon.member. */
void audience_leave_all(struct audience **all, struct membership **of_session, bool only_granted);

/* True if clairon.member grants the session's user membership in this audience. */
bool audience_is_granted(const struct membership *of_session, const char *key, size_t len);

/* True if the session belongs to all parts of a target of a composite audience. */
bool audience_has_parts(const struct membership *of_session, struct bytes kind,
                        struct bytes target);

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

/* True if the session is a member of the audience with this key. */
bool audience_has(const struct membership *of_session, const char *key, size_t len);

#endif
