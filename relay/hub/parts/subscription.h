/* subscription.h: the topics that a session's client subscribes to. */
#ifndef CLAIRON_HUB_PARTS_SUBSCRIPTION_H
#define CLAIRON_HUB_PARTS_SUBSCRIPTION_H

#include <stdint.h>

#include "hub/fanout/topics.h"

#define SUBSCRIPTION_FRAME_MAX (4 * TOPICS_BYTES_MAX) /* a topic is quoted, and may be escaped */

/* Zeroed at the start: all topics. */
struct subscription {
    struct topics *topics; /* NULL: all */
};

static inline bool
subscription_is_all(const struct subscription *subscription)
{
    return subscription->topics == NULL;
}

/* Adds exact topics and prefixes with a trailing '*'. RC_LIMIT: too many; nothing changed. */
MUST_CHECK enum rc subscription_add(struct subscription *subscription, const char *const *names,
                                    size_t count);

/* Removes topics, spelled as when they were added. */
void subscription_remove(struct subscription *subscription, const char *const *names, size_t count);

/* True if a notification of this topic is sent. */
static inline bool
subscription_has(const struct subscription *subscription, struct bytes topic)
{
    return topics_match(subscription->topics, topic);
}

/* Appends the `subscribed` frame, with the client's request id if it sent one. */
MUST_CHECK enum rc subscription_write(const struct subscription *subscription, bool has_request_id,
                                      int64_t request_id, struct buffer *out);

/* It is one to all topics again. */
void subscription_free(struct subscription *subscription);

#endif
