/* session_inflight.h: which notifications that need an ack a session sends or holds back. */
#ifndef CLAIRON_HUB_DELIVERY_SESSION_INFLIGHT_H
#define CLAIRON_HUB_DELIVERY_SESSION_INFLIGHT_H

#include "hub/session/session_state.h"

/*
 * Adds a notification that needs an ack to the in-flight window. False: it is not to be queued now.
 * Without room it stays in the user's inbox, and the store is asked whether its ack is pending: a
 * user who left a group may still have to acknowledge it.
 */
bool window_enter(struct session *session, struct note *note);

/* The same for one read from the inbox: without room it stays there. */
bool window_enter_owed(struct session *session, struct note *note);

/* The session's topics hide this one, new or from the inbox. The backlog still counts it. */
void window_hide(struct session *session, struct note *note);
void window_hide_owed(struct session *session, const struct note *note);

/* It was written to the socket: the ack timeout begins. */
void window_wrote(struct session *session, struct note *note);

/* A retry of it arrived; window_enter queues it, now or when the inbox is read again. */
void window_miss(struct session *session, const struct note *note);

/* The inbox is read again once there is room. */
void window_defer(struct session *session);

/* Removes an acknowledged notification. Returns its shard, or -1 if it was not in flight. */
int window_forget(struct session *session, const unsigned char id[16]);

/* Removes one that left the outbound queue unwritten. */
void window_drop(struct session *session, const struct note *note);

/* Its retries ended: removes it if it was written. */
void window_give_up(struct session *session, const unsigned char id[16]);

/*
 * The whole inbox was read to reconcile the in-flight window: entries that were not found there are
 * removed, the others are reported to the store again.
 */
void window_drop_refuted(struct session *session);

#endif
