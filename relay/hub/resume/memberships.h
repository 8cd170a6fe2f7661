/* memberships.h: requests a session's memberships from the store, and applies their changes. */
#ifndef CLAIRON_HUB_RESUME_MEMBERSHIPS_H
#define CLAIRON_HUB_RESUME_MEMBERSHIPS_H

#include "hub/session/session_state.h"

/* In the state GROUPING: requests the memberships for the first time. */
void session_load_groups(struct session *session);

/* Requests the memberships again, after any pending request. */
void session_reload_groups(struct session *session);

/*
 * Call it when a row of clairon.member that assigns the user to this audience was added or removed.
 */
void session_change_group(struct session *session, const char *key, size_t len, bool is_added);

#endif
