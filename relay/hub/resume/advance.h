/* advance.h: moves a session to the next step of its state. */
#ifndef CLAIRON_HUB_RESUME_ADVANCE_H
#define CLAIRON_HUB_RESUME_ADVANCE_H

struct session;

/* Only the turn calls it; other code marks the session READY_ADVANCE. */
void session_advance(struct session *session);

#endif
