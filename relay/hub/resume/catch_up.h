/*
 * catch_up.h: the state CATCHING_UP, in which a session reads the notifications after its cursor.
 */
#ifndef CLAIRON_HUB_RESUME_CATCH_UP_H
#define CLAIRON_HUB_RESUME_CATCH_UP_H

struct session;

void session_catch_up(struct session *session);

#endif
