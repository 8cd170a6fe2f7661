/* check.h: CHECKING: whether the store still holds all notifications after the client's cursor. */
#ifndef CLAIRON_HUB_RESUME_CHECK_H
#define CLAIRON_HUB_RESUME_CHECK_H

struct session;

/* Sends `connected`, or requests the next page first. */
void session_check(struct session *session);

#endif
