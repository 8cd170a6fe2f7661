/* advance.h: the next step of a session's state. */
#ifndef CLAIRON_HUB_RESUME_ADVANCE_H
#define CLAIRON_HUB_RESUME_ADVANCE_H

struct session;

/* Only the turn calls it; others mark the session READY_ADVANCE. */
void session_advance(struct session *session);

#endif
