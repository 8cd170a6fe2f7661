/* subscribe.c: changes the topics to which a session is subscribed. */
#include "hub/subscribe.h"

#include "base/log.h"
#include "hub/offer.h"
#include "hub/control.h"
#include "hub/hub_state.h"
#include "hub/ready_list.h"

_Static_assert(TOPICS_MAX == SESSION_TOPICS_MAX && TOPICS_BYTES_MAX == SESSION_TOPICS_BYTES_MAX,
               "the gate checks the limits of a set of topics");

/* A fan-out reads only the flag has_topics. */
static enum rc
add_topics(struct session *session, const struct session_topics *topics)
{
    enum rc rc = subscription_add(&session->subscription, topics->names, topics->count);

    session->has_topics = !subscription_is_all(&session->subscription);
    return rc;
}

static void
send_subscribed(struct session *session, bool has_request_id, int64_t request_id)
{
    struct buffer frame;

    buffer_init(&frame, SUBSCRIPTION_FRAME_MAX);
    if (subscription_write(&session->subscription, has_request_id, request_id, &frame) == RC_OK)
        session_send_control(session, frame.bytes, frame.len);
    else
        log_error("hub", "topics exceed the size of a control frame", LOG_SESSION(session));
    buffer_free(&frame);
}

enum rc
session_begin_subscription(struct session *session, const struct session_topics *topics)
{
    return topics->count > 0 ? add_topics(session, topics) : RC_OK;
}

enum rc
session_subscribe(struct session *session, const struct session_topics *topics, bool has_request_id,
                  int64_t request_id)
{
    enum rc rc = RC_AGAIN;

    if (session_can_send_control(session, SUBSCRIPTION_FRAME_MAX))
        rc = add_topics(session, topics);
    if (rc != RC_OK)
        return rc;
    send_subscribed(session, has_request_id, request_id);
    /* Notifications outside the previous topics are in the pending list. */
    session_rewind(session);
    return RC_OK;
}

enum rc
session_unsubscribe(struct session *session, const struct session_topics *topics,
                    bool has_request_id, int64_t request_id)
{
    if (!session_can_send_control(session, SUBSCRIPTION_FRAME_MAX))
        return RC_AGAIN;
    subscription_remove(&session->subscription, topics->names, topics->count);
    session->has_topics = !subscription_is_all(&session->subscription);
    send_subscribed(session, has_request_id, request_id);
    return RC_OK;
}
