/* subscribe.h: changes the topics to which a session is subscribed. */
#ifndef CLAIRON_HUB_SUBSCRIBE_H
#define CLAIRON_HUB_SUBSCRIBE_H

#include "hub/session.h"

/*
 * Subscribes to the topics of the first request. RC_LIMIT: too many topics; all notifications are
 * sent.
 */
MUST_CHECK enum rc session_begin_subscription(struct session *session,
                                              const struct session_topics *topics);

/*
 * Adds these topics, and sends `subscribed` with all topics. Notifications that are already queued
 * are still sent. RC_LIMIT: too many topics. RC_AGAIN: too many queued replies. Neither changes the
 * topics.
 */
MUST_CHECK enum rc session_subscribe(struct session *session, const struct session_topics *topics,
                                     bool has_request_id, int64_t request_id);

/*
 * Removes topics, which must be spelled as in `subscribe`; sends `subscribed`. RC_AGAIN: too many
 * queued replies.
 */
MUST_CHECK enum rc session_unsubscribe(struct session *session, const struct session_topics *topics,
                                       bool has_request_id, int64_t request_id);

#endif
