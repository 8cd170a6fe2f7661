/* inflight_release.h: removes acknowledged notifications from the in-flight windows of a user. */
#ifndef CLAIRON_HUB_ACKS_INFLIGHT_RELEASE_H
#define CLAIRON_HUB_ACKS_INFLIGHT_RELEASE_H

#include "hub/session/session_state.h"

/*
 * Removes a notification from all sessions of `members`. Returns its shard, or -1 if it was not in
 * flight or the id is invalid.
 */
int members_remove_inflight(struct membership *members, const char *id);

/*
 * Call it when the notification's retries have ended. Queued retries are still sent, because the
 * notification may have been redriven since; the reply to the delivery report decides.
 */
void members_end_retries(struct membership *members, const char *id);

/* Marks sessions with room in their in-flight windows to refill. */
void members_refill(struct membership *members);

#endif
