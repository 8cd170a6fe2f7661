/* session_inflight.h: selects the notifications with ack that a session sends or holds. */
#ifndef CLAIRON_HUB_DELIVERY_SESSION_INFLIGHT_H
#define CLAIRON_HUB_DELIVERY_SESSION_INFLIGHT_H

#include "hub/session/session_state.h"

/*
 * Adds a notification that needs an ack to the in-flight window. False: it is not to be queued now.
 * If the in-flight window is full, it stays in the user's inbox, and the store is asked whether its
 * ack is
 * pending: a user who left a group may still have to acknowledge it.
 */
bool session_inflight_add(struct session *session, struct notification *notification);

/* The same for one read from the inbox: if the in-flight window is full, it stays there. */
bool session_inflight_add_from_inbox(struct session *session, struct notification *notification);

/* The session's topics hide this one, new or from the inbox. The backlog still counts it. */
void session_inflight_hide(struct session *session, struct notification *notification);
void session_inflight_hide_from_inbox(struct session *session,
                                      const struct notification *notification);

/* It was written to the socket: the ack timeout begins. */
void session_inflight_written(struct session *session, struct notification *notification);

/* A retry of it arrived; session_inflight_add queues it, now or when the inbox is read again. */
void session_inflight_missed(struct session *session, const struct notification *notification);

/* The inbox is read again once there is room. */
void session_defer_inbox(struct session *session);

/* Removes an acknowledged notification. Returns its shard, or -1 if it was not in flight. */
int session_inflight_remove(struct session *session, const unsigned char id[16]);

/* Removes one that left the outbound queue unwritten. */
void session_inflight_drop(struct session *session, const struct notification *notification);

/* Its retries ended: removes it if it was written. */
void session_inflight_end_retries(struct session *session, const unsigned char id[16]);

/*
 * The whole inbox was read to reconcile the in-flight window: entries that were not found there are
 * removed, the others are reported to the store again.
 */
void session_inflight_reconcile(struct session *session);

#endif
