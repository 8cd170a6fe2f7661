/* inflight_release.h: removes acknowledged notifications from the in-flight windows of a user. */
#ifndef CLAIRON_HUB_ACKS_INFLIGHT_RELEASE_H
#define CLAIRON_HUB_ACKS_INFLIGHT_RELEASE_H

#include "hub/session/session_state.h"

/* From all sessions of `members`. Returns its shard, or -1 if it was not in flight or not an id. */
int members_remove_inflight(struct membership *members, const char *id);

/*
 * Retries of it ended. Queued retries are still sent, because it may have been redriven since; its
 * delivery report decides.
 */
void members_end_retries(struct membership *members, const char *id);

/* Their in-flight windows have room: marks them to refill. */
void members_refill(struct membership *members);

#endif
