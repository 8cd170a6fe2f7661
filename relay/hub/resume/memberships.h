/* memberships.h: requests a session's memberships from the store, and applies changes of them. */
#ifndef CLAIRON_HUB_RESUME_MEMBERSHIPS_H
#define CLAIRON_HUB_RESUME_MEMBERSHIPS_H

#include "hub/session/session_state.h"

/* GROUPING: requests the memberships for the first time. */
void session_load_groups(struct session *session);

/* Requests them again, or after the pending request. */
void session_reload_groups(struct session *session);

/* clairon.member has the user in this audience from now on, or not any longer. */
void session_change_group(struct session *session, const char *key, size_t len, bool is_added);

#endif
