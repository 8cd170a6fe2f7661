/* audience.c: the members of each audience, and the audiences of each session. */
#include "hub/fanout/audience.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/memory.h"
#include "base/pool.h"

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

bool
audience_has_all(const struct membership *of_session, const struct audience_parts *parts)
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

    return audience_split(kind, target, &parts) && audience_has_all(of_session, &parts);
}

/* Iterates over all lists in parallel: the list that ends first is the shortest. */
struct audience *
audience_smallest(struct audience *all, const struct audience_parts *parts)
{
    struct audience *found[AUDIENCE_PARTS_MAX];
    const struct membership *at[AUDIENCE_PARTS_MAX];
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    for (size_t i = 0; i < parts->count; i++) {
        found[i] = audience_key(parts->kinds[i], parts->targets[i], key, &len)
                       ? audience_find(all, key, len)
                       : NULL;
        if (found[i] == NULL)
            return NULL;
        at[i] = found[i]->members;
    }
    for (;;) {
        for (size_t i = 0; i < parts->count; i++) {
            at[i] = at[i]->next;
            if (at[i] == NULL)
                return found[i];
        }
    }
}
