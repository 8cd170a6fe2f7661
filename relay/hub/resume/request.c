/* request.c: tracks a session's requests to the store. */
#include "hub/resume/request.h"

#include "hub/session/hub_state.h"
#include "hub/session/ready_list.h"
#include "hub/session/session.h"
#include "hub/session/state.h"

#define CLOSE_RESTART 4201

bool
session_reply_arrived(struct session *session, enum rc rc)
{
    session->requests.count--;
    if (session->state == SESSION_CLOSED) {
        session_free_if_done(session);
        return false;
    }
    if (rc == RC_OK) {
        session->requests.has_failed = false;
        return true;
    }
    /* The store may be about to go down: close the session only at the second error. */
    if (session->requests.has_failed && store_is_up(session->hub->store))
        session->socket.transport->close(session->socket.handle, CLOSE_RESTART,
                                         "no reply from the store", -1);
    session->requests.has_failed = true;
    hub_retry(session->hub);
    return false;
}

void
session_await(struct session *session, enum rc sent)
{
    session->requests.is_awaited = sent == RC_OK;
    session->requests.count += sent == RC_OK;
}
