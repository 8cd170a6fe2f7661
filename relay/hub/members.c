/* members.c: the sessions of a user, and the audiences of a session. */
#include "hub/members.h"

#include <string.h>
#include <utlist.h>

#include "hub/hub_state.h"

struct audience *
hub_find_user(struct hub *hub, struct bytes user)
{
    const struct bytes kind = {(const unsigned char *)"USER", 4};
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    return audience_key(kind, user, key, &len) ? audience_find(hub->audiences, key, len) : NULL;
}

struct membership *
hub_user_members(struct hub *hub, const char *user)
{
    struct audience *audience =
        hub_find_user(hub, (struct bytes){(const unsigned char *)user, strlen(user)});

    return audience != NULL ? audience->members : NULL;
}

size_t
hub_user_sessions(struct hub *hub, const char *user)
{
    struct membership *members = hub_user_members(hub, user), *member;
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
