/* subscription.c: the topics to which a session is subscribed. */
#include "hub/subscription.h"

#include <inttypes.h>

enum rc
subscription_add(struct subscription *subscription, const char *const *names, size_t count)
{
    return topics_add(&subscription->topics, names, count);
}

void
subscription_remove(struct subscription *subscription, const char *const *names, size_t count)
{
    topics_remove(&subscription->topics, names, count);
}

enum rc
subscription_write(const struct subscription *subscription, bool has_request_id, int64_t request_id,
                   struct buffer *out)
{
    enum rc rc = buffer_addf(out, "{\"t\":\"subscribed\",");

    if (rc == RC_OK && has_request_id)
        rc = buffer_addf(out, "\"r\":%" PRId64 ",", request_id);
    if (rc == RC_OK)
        rc = buffer_addf(out, "\"topics\":");
    if (rc == RC_OK)
        rc = topics_write(subscription->topics, out);
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

void
subscription_free(struct subscription *subscription)
{
    topics_free(subscription->topics);
    subscription->topics = NULL;
}
