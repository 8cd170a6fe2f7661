/* control.c: a session's control queue. */
#include "hub/session/control.h"

#include "base/log.h"
#include "hub/session/hub_state.h"
#include "hub/session/ready_list.h"
#include "hub/session/session.h"

bool
session_can_say(const struct session *session, size_t len)
{
    return session->control.lines.len + len + 1 <= SESSION_SAID_MAX;
}

void
session_say(struct session *session, const char *line, size_t len)
{
    if (!session_can_say(session, len) || buffer_add(&session->control.lines, line, len) != RC_OK ||
        buffer_add(&session->control.lines, "\n", 1) != RC_OK) {
        /* Only a peer that asks and never reads gets here; pings and timers end it. */
        log_debugf(session->client.name, "control lines pile up, one is not sent");
        return;
    }
    session->has_said = true;
    session_mark(session, READY_SEND);
}
