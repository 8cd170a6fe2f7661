/* row_order.h: the newest notification per topic that was sent to a session. */
#ifndef CLAIRON_HUB_ROW_ORDER_H
#define CLAIRON_HUB_ROW_ORDER_H

#include "hub/session_state.h"

/*
 * The notifications of one rule about one row reach a session in commit order. Only notifications
 * that need an ack can be late: they are deferred until the in-flight window has room, the user
 * returns to a group or topic, or they are redriven. session_queue calls this function for every
 * notification: if a newer notification of the same topic was sent to this session, the older
 * notification is sent with `attempts` above 0, so that the client does not overwrite the newer
 * row.
 *
 * A rule has one topic; a replaced rule counts as another rule. Returns a reference.
 */
struct notification *row_order_pass(struct session *session, struct notification *notification);

/* Call it in a new epoch, in which the WAL positions are invalid. */
void row_order_free(struct session *session);

#endif
