/* subscription.h: the topics to which a session is subscribed. */
#ifndef CLAIRON_HUB_SUBSCRIPTION_H
#define CLAIRON_HUB_SUBSCRIPTION_H

#include <stdint.h>

#include "hub/topics.h"

#define SUBSCRIPTION_FRAME_MAX (4 * TOPICS_BYTES_MAX) /* topics are quoted and may be escaped */

/* Initially zeroed: all topics. */
struct subscription {
    struct topics *topics; /* NULL: all topics */
};

static inline bool
subscription_is_all(const struct subscription *subscription)
{
    return subscription->topics == NULL;
}

/*
 * Adds exact topics and prefixes with a trailing '*'. RC_LIMIT: too many; the subscription is
 * unchanged.
 */
MUST_CHECK enum rc subscription_add(struct subscription *subscription, const char *const *names,
                                    size_t count);

/* Removes topics, which must be spelled as they were added. */
void subscription_remove(struct subscription *subscription, const char *const *names, size_t count);

/* True if notifications of this topic are sent. */
static inline bool
subscription_has(const struct subscription *subscription, struct bytes topic)
{
    return topics_match(subscription->topics, topic);
}

/* Appends the `subscribed` frame, including the client's request id, if any. */
MUST_CHECK enum rc subscription_write(const struct subscription *subscription, bool has_request_id,
                                      int64_t request_id, struct buffer *out);

/* Frees the topics, and resets the subscription to all topics. */
void subscription_free(struct subscription *subscription);

#endif
