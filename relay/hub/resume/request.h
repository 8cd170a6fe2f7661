/* request.h: a session's requests to the store. */
#ifndef CLAIRON_HUB_RESUME_REQUEST_H
#define CLAIRON_HUB_RESUME_REQUEST_H

#include "base/rc.h"
#include "hub/session/session_state.h"

#define SESSION_PAGE 256 /* entries in one page */

/*
 * Counts a request. If it was sent, its reply marks the session to advance; otherwise the store's
 * return does.
 */
void session_await(struct session *session, enum rc sent);

/*
 * First call in every reply. False: the session is closed or being closed, or waits for the store's
 * return.
 */
bool session_reply_arrived(struct session *session, enum rc rc);

#endif
