/* state.h: changes the states of a session, and frees it. */
#ifndef CLAIRON_HUB_STATE_H
#define CLAIRON_HUB_STATE_H

#include "hub/session_state.h"

/* Zeroed, from a pool; session_free_if_done returns it to the pool. */
struct session *session_new(void);

/* The only way to change the state. An unlisted transition leads to FAILED. */
void session_set_state(struct session *session, enum session_state state);

/* Frees a CLOSED session, unless a pending reply of the store or the ready list refers to it. */
void session_free_if_done(struct session *session);

#endif
