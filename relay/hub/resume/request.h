/* request.h: tracks a session's requests to the store. */
#ifndef CLAIRON_HUB_RESUME_REQUEST_H
#define CLAIRON_HUB_RESUME_REQUEST_H

#include "base/rc.h"
#include "hub/session/session_state.h"

#define SESSION_PAGE 256 /* stream entries in one page */

/*
 * Counts a request. If the request was sent, its reply marks the session to advance. Otherwise the
 * session advances when the store is up again.
 */
void session_await(struct session *session, enum rc sent);

/*
 * Must be called first in every reply callback. Returns false if the session is closed, is being
 * closed, or waits until the store is up again.
 */
bool session_reply_arrived(struct session *session, enum rc rc);

#endif
