/* row_order.h: the newest notification of each topic that a session was sent. */
#ifndef CLAIRON_HUB_SESSION_ROW_ORDER_H
#define CLAIRON_HUB_SESSION_ROW_ORDER_H

#include "hub/session/session_state.h"

/*
 * The notifications of one rule about one row reach a session in commit order. Only notifications
 * that need an ack can be late: they wait in the inbox for room in the in-flight window, for their
 * user's return to a group or topic, or for a redrive. Two functions keep the order:
 *
 * - backlog_decide: a notification that is no longer in the inbox, because it was acknowledged
 *   elsewhere, never overtakes those that wait there. It is dropped, with a gap after them.
 * - row_order_pass, which session_queue calls for every notification: one that is older than
 *   another of its topic in this session is sent with `attempts` above 0, so that the client does
 *   not apply it over the newer one.
 *
 * A rule has one topic; a replaced rule is another rule. Returns a reference.
 */
struct notification *row_order_pass(struct session *session, struct notification *notification);

/* WAL positions of another epoch are meaningless in this one. */
void row_order_free(struct session *session);

#endif
