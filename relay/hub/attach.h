/* attach.h: begins and ends a session. */
#ifndef CLAIRON_HUB_ATTACH_H
#define CLAIRON_HUB_ATTACH_H

#include "hub/session/session.h"

/* A client whose token is valid. Copied by hub_attach. */
struct session_request {
    const char *user;
    const struct session_group *groups;
    size_t group_count;
    const char *pos;     /* NULL: only new notifications */
    int window;          /* requested by the client; 0: the configured one */
    int64_t expires_s;   /* the token's exp, Unix seconds */
    bool has_request_id; /* the client's "r" */
    int64_t request_id;
    struct session_topics topics; /* empty: all */
    bool is_poll; /* with pos: notifications sent before are not repeated until their ack timeout */
};

/*
 * Begins a session. It reads the user's memberships, sends `connected`, then the inbox, then the
 * notifications after pos, then new ones. It waits while the store is down. Never NULL. End it with
 * session_detach.
 */
struct session *hub_attach(struct hub *hub, const struct session_request *request,
                           const struct session_transport *transport, void *socket);

/* The socket is closed. Frees the session, now or when the last pending reply arrives. */
void session_detach(struct session *session);

#endif
