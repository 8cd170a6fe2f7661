/* audience.c: the members of each audience, and the audiences of each session. */
#include "hub/audience.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/memory.h"
#include "base/pool.h"
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

static struct audience *
find_or_add(struct audience **all, const char *key, size_t len)
{
    struct audience *audience = audience_find(*all, key, len);

    if (audience != NULL)
        return audience;
    audience = memory_new(sizeof(*audience) + len + 1);
    memcpy(audience->key, key, len);
    audience->key_len = len;
    HASH_ADD_KEYPTR(hh, *all, audience->key, len, audience);
    return audience;
}

static bool
has_key(const struct membership *membership, const char *key, size_t len)
{
    return membership->audience->key_len == len && memcmp(membership->audience->key, key, len) == 0;
}

bool
audience_has(const struct membership *of_session, const char *key, size_t len)
{
    for (; of_session != NULL; of_session = of_session->next_of_session) {
        if (has_key(of_session, key, len))
            return true;
    }
    return false;
}

bool
audience_is_granted(const struct membership *of_session, const char *key, size_t len)
{
    for (; of_session != NULL; of_session = of_session->next_of_session) {
        if (of_session->is_granted && has_key(of_session, key, len))
            return true;
    }
    return false;
}

void
audience_join(struct audience **all, struct membership **of_session, struct session *session,
              const char *key, size_t len, bool is_granted)
{
    struct membership *membership;

    if (audience_has(*of_session, key, len))
        return;
    membership = pool_alloc(&memberships);
    membership->session = session;
    membership->is_granted = is_granted;
    membership->audience = find_or_add(all, key, len);
    DL_APPEND(membership->audience->members, membership);
    membership->audience->member_count++;
    membership->next_of_session = *of_session;
    *of_session = membership;
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
audience_leave(struct audience **all, struct membership **of_session, const char *key, size_t len)
{
    for (struct membership **link = of_session; *link != NULL; link = &(*link)->next_of_session) {
        if ((*link)->is_granted && has_key(*link, key, len)) {
            end_membership(all, link);
            return;
        }
    }
}

void
audience_leave_all(struct audience **all, struct membership **of_session, bool only_granted)
{
    struct membership **link = of_session;

    while (*link != NULL) {
        if (only_granted && !(*link)->is_granted)
            link = &(*link)->next_of_session;
        else
            end_membership(all, link);
    }
}

static bool
has_all(const struct membership *of_session, const struct audience_parts *parts)
{
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    for (size_t i = 0; i < parts->count; i++) {
        if (!audience_key(parts->kinds[i], parts->targets[i], key, &len) ||
            !audience_has(of_session, key, len))
            return false;
    }
    return true;
}

bool
audience_has_parts(const struct membership *of_session, struct bytes kind, struct bytes target)
{
    struct audience_parts parts = {.count = 0};

    return audience_split(kind, target, &parts) && has_all(of_session, &parts);
}

static void
link_target(struct audience_match *match, struct audience *audience, uint32_t target)
{
    if (audience->match_number != match->number) {
        audience->match_number = match->number;
        audience->last_link = 0;
        audience->is_candidate = false;
    }
    match->links[match->link_count] =
        (struct audience_match_link){.target = target, .before = audience->last_link};
    audience->last_link = ++match->link_count;
}

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
    for (size_t i = 0; i < parts.count; i++)
        link_target(match, found[i], index);
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
