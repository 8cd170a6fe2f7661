/* members.h: the sessions of a user, and the audiences of a session. */
#ifndef CLAIRON_HUB_MEMBERS_H
#define CLAIRON_HUB_MEMBERS_H

#include "hub/session_state.h"

/* Returns the sessions of a user, as members of an audience; NULL: none. */
struct audience *hub_find_user(struct hub *hub, struct bytes user);
struct membership *hub_user_members(struct hub *hub, const char *user);
size_t hub_user_sessions(struct hub *hub, const char *user);

/* True if the session belongs to the notification's audience. */
bool session_is_recipient(const struct session *session, const struct frame *frame);

#endif
