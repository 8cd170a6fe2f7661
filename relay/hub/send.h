/* send.h: writes a session's queues to its socket. */
#ifndef CLAIRON_HUB_SEND_H
#define CLAIRON_HUB_SEND_H

struct hub;
struct session;

/*
 * Writes as many bytes as the socket accepts. Marks the session READY_SEND again if bytes are left.
 */
void session_send(struct hub *hub, struct session *session);

#endif
