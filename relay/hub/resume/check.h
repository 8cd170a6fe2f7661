/* check.h: the state CHECKING, which detects lost stream entries after the client's cursor. */
#ifndef CLAIRON_HUB_RESUME_CHECK_H
#define CLAIRON_HUB_RESUME_CHECK_H

struct session;

/* Sends `connected`, or first requests the next page. */
void session_check(struct session *session);

#endif
