/* attach.h: starts and ends sessions. */
#ifndef CLAIRON_HUB_ATTACH_H
#define CLAIRON_HUB_ATTACH_H

#include "hub/session.h"

/* A client whose token is valid. hub_attach copies it. */
struct session_request {
    const char *user;
    const struct session_group *groups;
    size_t group_count;
    const char *pos;     /* NULL: send only new notifications */
    int window;          /* requested by the client; 0: use the configured size */
    int64_t expires_s;   /* the token's exp, Unix seconds */
    bool has_request_id; /* the client's "r" */
    int64_t request_id;
    struct session_topics topics; /* empty: all topics */
    /* with pos: notifications that were already sent are not repeated before their ack timeout */
    bool is_poll;
};

/*
 * Starts a session. The session reads the user's memberships, sends `connected`, then the inbox,
 * then the notifications after pos, then new notifications. Waits while the store is down. Never
 * returns NULL. End the session with session_detach.
 */
struct session *hub_attach(struct hub *hub, const struct session_request *request,
                           const struct session_transport *transport, void *socket);

/*
 * Call it when the socket is closed. Frees the session, immediately or when the last pending reply
 * arrives.
 */
void session_detach(struct session *session);

#endif
