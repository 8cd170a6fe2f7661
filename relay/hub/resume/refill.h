/* refill.h: decides when a live session reads its user's inbox again. */
#ifndef CLAIRON_HUB_RESUME_REFILL_H
#define CLAIRON_HUB_RESUME_REFILL_H

#include "hub/session/session_state.h"

/* Compares the in-flight window with the inbox: acknowledgements may have been missed. */
void session_reconcile(struct session *session);

/* True if acks have made room: half of the in-flight window, or any on a heartbeat. */
bool session_wants_refill(const struct session *session, bool is_heartbeat);

/*
 * LIVE becomes INBOX, and is to advance at once. Only if session_wants_refill, and once all reports
 * and acks are stored.
 */
void session_refill(struct session *session);

/* The store was emptied: nothing before the hub's head exists. */
void session_change_epoch(struct session *session);

#endif
