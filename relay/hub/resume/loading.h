/* loading.h: the state LOADING, before `connected` is sent. */
#ifndef CLAIRON_HUB_RESUME_LOADING_H
#define CLAIRON_HUB_RESUME_LOADING_H

#include "hub/session/session_state.h"

/*
 * Checks what the client has lost since its cursor, page by page, and sends `connected`. Requires
 * current memberships.
 */
void session_load(struct session *session);

/*
 * Requests the session's memberships. session_reload_groups requests them again, after any pending
 * request. Call session_change_group when a row of clairon.member that assigns the user to this
 * audience was added or removed.
 */
void session_request_groups(struct session *session);
void session_reload_groups(struct session *session);
void session_change_group(struct session *session, const char *key, size_t len, bool is_added);

#endif
