/* refill.h: decides when a live session reads its user's inbox again. */
#ifndef CLAIRON_HUB_RESUME_REFILL_H
#define CLAIRON_HUB_RESUME_REFILL_H

#include "hub/session/session_state.h"

/* Compares the in-flight window with the inbox: acknowledgements may have been missed. */
void session_reconcile(struct session *session);

/*
 * True if acks have freed half of the in-flight window. On a heartbeat, any free part is
 * sufficient.
 */
bool session_wants_refill(const struct session *session, bool is_heartbeat);

/*
 * Changes the state from LIVE to INBOX; the session must advance immediately. Requires
 * session_wants_refill, and that all delivery reports and acks are stored.
 */
void session_refill(struct session *session);

/* Call it when the store was emptied: no stream entry before the hub's head exists. */
void session_change_epoch(struct session *session);

#endif
