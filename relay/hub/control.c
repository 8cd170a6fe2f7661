/* control.c: a session's control queue. */
#include "hub/control.h"

#include "base/log.h"
#include "hub/hub_state.h"
#include "hub/ready_list.h"
#include "hub/session.h"

bool
session_can_send_control(const struct session *session, size_t len)
{
    return session->control.frames.len + len + 1 <= SESSION_CONTROL_MAX;
}

void
session_send_control(struct session *session, const char *line, size_t len)
{
    if (!session_can_send_control(session, len) ||
        buffer_add(&session->control.frames, line, len) != RC_OK ||
        buffer_add(&session->control.frames, "\n", 1) != RC_OK) {
        /*
         * The client sends requests without reading; the ping timeout closes the connection.
         */
        log_debug("hub", "control queue is full: frame dropped", LOG_SESSION(session));
        return;
    }
    session->has_control = true;
    session_mark(session, READY_SEND);
}
