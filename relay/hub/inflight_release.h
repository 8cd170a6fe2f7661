/* inflight_release.h: ends notifications in the in-flight windows of a user's sessions. */
#ifndef CLAIRON_HUB_INFLIGHT_RELEASE_H
#define CLAIRON_HUB_INFLIGHT_RELEASE_H

#include "hub/audience.h"

struct session;

/*
 * The user acknowledged a notification in the session `by` (NULL: elsewhere). Returns its shard, or
 * -1 if it was not in flight or the id is invalid.
 */
int members_end_inflight(struct membership *members, const char *id, const struct session *by);

/*
 * Call it when the notification's retries have ended. Queued retries are still sent, because the
 * notification may have been redriven since; the reply to the delivery report decides.
 */
void members_end_retries(struct membership *members, const char *id);

/* Marks sessions to refill their in-flight windows. */
void members_refill(struct membership *members);

#endif
