/* audience.h: the members of each audience, and the audiences of each session. */
#ifndef CLAIRON_HUB_FANOUT_AUDIENCE_H
#define CLAIRON_HUB_FANOUT_AUDIENCE_H

#include <stdbool.h>
#include <string.h>
#include <uthash.h>

#include "wire/audience.h"
#include "wire/bytes.h"

struct session;

/* "USER:u1", "STRUCTURE:s1" or "ALL". Freed with its last member. */
struct audience {
    UT_hash_handle hh;
    struct membership *members; /* utlist, linked by next and prev */
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
/* Like audience_has_parts, for parts that are already split. */
bool audience_has_all(const struct membership *of_session, const struct audience_parts *parts);

/* Returns the part with the fewest members; NULL: some part has no members. */
struct audience *audience_smallest(struct audience *all, const struct audience_parts *parts);

/* True if the session is a member of the audience with this key. */
bool audience_has(const struct membership *of_session, const char *key, size_t len);

#endif
