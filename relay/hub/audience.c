/*
 * audience.c: the members of each audience, and the audiences of each session: from the token and
 * from clairon.member.
 */
#include "hub/audience.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/text.h"
#include "base/memory.h"
#include "hub/hub_private.h"
#include "wire/frame.h"

static struct pool memberships = {.size = sizeof(struct membership)};

bool
audience_key(struct bytes kind, struct bytes target, char ret_key[AUDIENCE_KEY_MAX],
             size_t *ret_len)
{
    if (kind.len + 1 + target.len >= AUDIENCE_KEY_MAX)
        return false;
    memcpy(ret_key, kind.at, kind.len);
    ret_key[kind.len] = ':';
    if (target.len > 0)
        memcpy(ret_key + kind.len + 1, target.at, target.len);
    *ret_len = kind.len + 1 + target.len;
    return true;
}

struct audience *
audience_find(struct audience *all, const char *key, size_t len)
{
    struct audience *found = NULL;

    HASH_FIND(hh, all, key, len, found);
    return found;
}

/* ---- the memberships of a session */

static bool
has_key(const struct membership *membership, const char *key, size_t len)
{
    return membership->audience->hh.keylen == len &&
           memcmp(membership->audience->key, key, len) == 0;
}

static const struct membership *
find_membership(const struct session_groups *groups, const char *key, size_t len)
{
    const struct membership *at = groups->memberships;

    while (at != NULL && !has_key(at, key, len))
        at = at->next_of_session;
    return at;
}

void
groups_join(struct session_groups *groups, struct audience **all, struct session *session,
            const char *key, size_t len, bool is_granted)
{
    struct membership *membership;
    struct audience *audience;

    if (find_membership(groups, key, len) != NULL)
        return;
    audience = audience_find(*all, key, len);
    if (audience == NULL) {
        audience = memory_new(offsetof(struct audience, key) + len + 1);
        memcpy(audience->key, key, len);
        HASH_ADD_KEYPTR(hh, *all, audience->key, len, audience);
    }
    membership = pool_alloc(&memberships);
    membership->session = session;
    membership->is_granted = is_granted;
    membership->audience = audience;
    DL_APPEND(audience->members, membership);
    audience->member_count++;
    membership->next_of_session = groups->memberships;
    groups->memberships = membership;
}

/* Unlinks *link from both its lists and frees it. */
static void
end_membership(struct audience **all, struct membership **link)
{
    struct membership *membership = *link;
    struct audience *audience = membership->audience;

    *link = membership->next_of_session;
    DL_DELETE(audience->members, membership);
    audience->member_count--;
    pool_release(&memberships, membership);
    if (audience->members == NULL) {
        HASH_DEL(*all, audience);
        free(audience);
    }
}

void
groups_leave(struct session_groups *groups, struct audience **all, const char *key, size_t len)
{
    struct membership **link = &groups->memberships;

    while (*link != NULL && !has_key(*link, key, len))
        link = &(*link)->next_of_session;
    if (*link != NULL && (*link)->is_granted)
        end_membership(all, link);
}

void
groups_replace(struct session_groups *groups, struct audience **all, struct session *session,
               const struct bytes *keys, size_t count)
{
    struct membership **link = &groups->memberships;

    while (*link != NULL) {
        if ((*link)->is_granted)
            end_membership(all, link);
        else
            link = &(*link)->next_of_session;
    }
    for (size_t i = 0; i < count; i++) {
        if (keys[i].len > 0 && keys[i].len < AUDIENCE_KEY_MAX)
            groups_join(groups, all, session, (const char *)keys[i].at, keys[i].len, true);
    }
}

void
groups_clear(struct session_groups *groups, struct audience **all)
{
    while (groups->memberships != NULL)
        end_membership(all, &groups->memberships);
}

bool
groups_lack(const struct session_groups *groups, const struct bytes *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct membership *known =
            find_membership(groups, (const char *)keys[i].at, keys[i].len);

        if (known == NULL || !known->is_granted)
            return true;
    }
    return false;
}

bool
groups_have(const struct session_groups *groups, struct bytes kind, struct bytes target)
{
    struct audience_parts parts = {.count = 0};
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    if (!audience_is_composite(kind))
        return audience_key(kind, target, key, &len) && find_membership(groups, key, len) != NULL;
    if (!audience_split(kind, target, &parts))
        return false;
    for (size_t i = 0; i < parts.count; i++) {
        if (!audience_key(parts.kinds[i], parts.targets[i], key, &len) ||
            find_membership(groups, key, len) == NULL)
            return false;
    }
    return true;
}

/* ---- the targets of one notification for a composite audience */

/* A target has no recipients if one of its groups has no members. */
static void
add_target(struct audience_match *match, struct audience *all, struct bytes kind,
           struct bytes target, uint32_t index)
{
    struct audience_parts parts = {.count = 0};
    struct audience *found[AUDIENCE_PARTS_MAX], *smallest = NULL;
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    if (!audience_split(kind, target, &parts))
        return;
    for (size_t i = 0; i < parts.count; i++) {
        found[i] = audience_key(parts.kinds[i], parts.targets[i], key, &len)
                       ? audience_find(all, key, len)
                       : NULL;
        if (found[i] == NULL)
            return;
        if (smallest == NULL || found[i]->member_count < smallest->member_count)
            smallest = found[i];
    }
    match->part_count = parts.count;
    for (size_t i = 0; i < parts.count; i++) {
        if (found[i]->match_number != match->number) {
            found[i]->match_number = match->number;
            found[i]->last_link = 0;
            found[i]->is_candidate = false;
        }
        match->links[match->link_count] =
            (struct audience_match_link){.target = index, .before = found[i]->last_link};
        found[i]->last_link = ++match->link_count;
    }
    if (smallest == NULL)
        return;
    if (!smallest->is_candidate)
        match->candidates[match->candidate_count++] = smallest;
    smallest->is_candidate = true;
}

void
audience_match_begin(struct audience_match *match, struct audience *all, struct bytes kind,
                     struct bytes targets, size_t target_count)
{
    static uint64_t numbers;
    struct bytes target;

    *match = (struct audience_match){.number = ++numbers};
    match->targets = memory_new((target_count + 1) * sizeof(*match->targets));
    match->links = memory_new((target_count * AUDIENCE_PARTS_MAX + 1) * sizeof(*match->links));
    match->candidates = memory_new((target_count + 1) * sizeof(struct audience *));
    for (uint32_t i = 0; i < target_count && frame_next_target(&targets, &target) == RC_OK; i++)
        add_target(match, all, kind, target, i);
}

bool
audience_match_has(struct audience_match *match, const struct membership *of_session)
{
    const uint32_t session = ++match->session_count;

    for (; of_session != NULL; of_session = of_session->next_of_session) {
        const struct audience *audience = of_session->audience;
        uint32_t at = audience->match_number == match->number ? audience->last_link : 0;

        for (; at != 0; at = match->links[at - 1].before) {
            struct audience_match_target *target = &match->targets[match->links[at - 1].target];

            if (target->session != session)
                *target = (struct audience_match_target){.session = session};
            if (++target->parts == match->part_count)
                return true;
        }
    }
    return false;
}

void
audience_match_end(struct audience_match *match)
{
    free(match->targets);
    free(match->links);
    free(match->candidates);
}

/* ---- the groups of the token as JSON */

/* Returns the kind of the key "STRUCTURE:s1"; empty for ALL. */
static struct bytes
kind_of(const struct membership *membership)
{
    const struct audience *audience = membership->audience;
    const char *colon = memchr(audience->key, ':', audience->hh.keylen);

    return (struct bytes){(const unsigned char *)audience->key,
                          colon != NULL ? (size_t)(colon - audience->key) : 0};
}

static struct bytes
target_of(const struct membership *membership)
{
    size_t kind_len = kind_of(membership).len + 1;

    return (struct bytes){(const unsigned char *)membership->audience->key + kind_len,
                          membership->audience->hh.keylen - kind_len};
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

    for (const struct membership *at = groups->memberships; at != NULL; at = at->next_of_session)
        sum += hash_bytes(HASH_START, at->audience->key, at->audience->hh.keylen);
    return sum;
}

/* ---- the sessions of a user, and the recipients of a notification */

struct audience *
hub_find_user(struct hub *hub, struct bytes user)
{
    const struct bytes kind = {(const unsigned char *)"USER", 4};
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    return audience_key(kind, user, key, &len) ? audience_find(hub->audiences, key, len) : NULL;
}

struct membership *
hub_sessions_of_user(struct hub *hub, const char *user)
{
    struct audience *audience =
        hub_find_user(hub, (struct bytes){(const unsigned char *)user, strlen(user)});

    return audience != NULL ? audience->members : NULL;
}

size_t
hub_user_sessions(struct hub *hub, const char *user)
{
    struct membership *members = hub_sessions_of_user(hub, user), *member;
    size_t count = 0;

    DL_COUNT(members, member, count);
    return count;
}

bool
session_is_recipient(const struct session *session, const struct frame *frame)
{
    const struct frame_notification *fields = &frame->as.notification;
    struct bytes targets = fields->targets;
    struct bytes target;

    if (audience_is_all(fields->audience))
        return true;
    while (frame_next_target(&targets, &target) == RC_OK) {
        if (groups_have(&session->groups, fields->audience, target))
            return true;
    }
    return false;
}
