/* session_inflight.h: selects the notifications with ack that a session sends or holds back. */
#ifndef CLAIRON_HUB_DELIVERY_SESSION_INFLIGHT_H
#define CLAIRON_HUB_DELIVERY_SESSION_INFLIGHT_H

#include "hub/session/session_state.h"

/*
 * Adds a notification that needs an ack to the in-flight window. False if it must not be queued
 * now. If the in-flight window is full, the notification stays in the user's inbox. A query to the
 * store checks whether its ack is pending: a user who left a group may still be required to
 * acknowledge it.
 */
bool session_inflight_add(struct session *session, struct notification *notification);

/* Like session_inflight_add, for a notification that is already in the inbox. */
bool session_inflight_add_from_inbox(struct session *session, struct notification *notification);

/* Handles a notification outside the session's topics, which still counts in the backlog. */
void session_inflight_hide(struct session *session, struct notification *notification);
void session_inflight_hide_from_inbox(struct session *session,
                                      const struct notification *notification);

/* Call it when the notification was written to the socket. Starts the ack timeout. */
void session_inflight_written(struct session *session, struct notification *notification);

/*
 * Call it when a retry arrives. session_inflight_add queues the retry, immediately or when the
 * inbox is read again.
 */
void session_inflight_missed(struct session *session, const struct notification *notification);

/* Reads the inbox again once the in-flight window has room. */
void session_defer_inbox(struct session *session);

/* Removes an acknowledged notification. Returns its shard, or -1 if it was not in flight. */
int session_inflight_remove(struct session *session, const unsigned char id[16]);

/* Removes a notification that left the outbound queue unwritten. */
void session_inflight_drop(struct session *session, const struct notification *notification);

/*
 * Call it when the notification's retries have ended. Removes the notification if it was written.
 */
void session_inflight_end_retries(struct session *session, const unsigned char id[16]);

/*
 * Call it after the whole inbox was read to reconcile the in-flight window. Removes notifications
 * that the inbox does not contain, and reports the other notifications to the store again.
 */
void session_inflight_reconcile(struct session *session);

#endif
