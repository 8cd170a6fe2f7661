/* subscribe.h: changes of the topics that a session's client subscribes to. */
#ifndef CLAIRON_HUB_RESUME_SUBSCRIBE_H
#define CLAIRON_HUB_RESUME_SUBSCRIBE_H

#include "hub/session/session.h"

/* The topics of its first request. RC_LIMIT: too many; it is sent all. */
MUST_CHECK enum rc session_begin_subscription(struct session *session,
                                              const struct session_topics *topics);

/*
 * Subscribes to these topics as well, and sends `subscribed` with all of them. Notifications that
 * are already queued are still sent. RC_LIMIT: too many topics. RC_AGAIN: too many replies wait.
 * In both cases nothing changed.
 */
MUST_CHECK enum rc session_subscribe(struct session *session, const struct session_topics *topics,
                                     bool has_request_id, int64_t request_id);

/* Unsubscribes from topics, spelled as when subscribing; sends `subscribed`. RC_AGAIN: as above. */
MUST_CHECK enum rc session_unsubscribe(struct session *session, const struct session_topics *topics,
                                       bool has_request_id, int64_t request_id);

#endif
