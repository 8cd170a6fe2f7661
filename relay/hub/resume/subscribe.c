/* subscribe.c: the topics that a session's client subscribes to. */
#include <inttypes.h>

#include "base/log.h"
#include "hub/delivery/session_inflight.h"
#include "hub/session/hub_state.h"
#include "hub/session/ready_list.h"
#include "hub/session/session.h"

/* A topic is quoted, and its bytes may be escaped. */
#define FRAME_MAX (4 * TOPICS_BYTES_MAX)

_Static_assert(TOPICS_MAX == SESSION_TOPICS_MAX && TOPICS_BYTES_MAX == SESSION_TOPICS_BYTES_MAX,
               "the limits that the gate checks are those of a set of topics");

static void
send_subscribed(struct session *session, bool has_request_id, int64_t request_id)
{
    struct buffer frame;
    enum rc rc;

    buffer_init(&frame, FRAME_MAX);
    rc = buffer_addf(&frame, "{\"t\":\"subscribed\",");
    if (rc == RC_OK && has_request_id)
        rc = buffer_addf(&frame, "\"r\":%" PRId64 ",", request_id);
    if (rc == RC_OK)
        rc = buffer_addf(&frame, "\"topics\":");
    if (rc == RC_OK)
        rc = topics_write(session->topics, &frame);
    if (rc == RC_OK)
        rc = buffer_add(&frame, "}", 1);
    if (rc == RC_OK)
        session_send_control(session, frame.bytes, frame.len);
    else
        log_error("hub", "topics do not fit a control frame", LOG_SESSION(session));
    buffer_free(&frame);
}

enum rc
session_subscribe(struct session *session, const struct session_topics *topics, bool has_request_id,
                  int64_t request_id)
{
    enum rc rc = topics_add(&session->topics, topics->names, topics->count);

    if (rc != RC_OK)
        return rc;
    session->has_topics = session->topics != NULL;
    send_subscribed(session, has_request_id, request_id);
    /* Notifications that its topics hid are in the inbox if their ack is pending. */
    inbox_miss(&session->inbox);
    session_defer_inbox(session);
    session_mark(session, READY_REFILL);
    return RC_OK;
}

void
session_unsubscribe(struct session *session, const struct session_topics *topics,
                    bool has_request_id, int64_t request_id)
{
    topics_remove(&session->topics, topics->names, topics->count);
    session->has_topics = session->topics != NULL;
    send_subscribed(session, has_request_id, request_id);
}
