/* user_acks.h: applies acknowledgements to a user's sessions. */
#ifndef CLAIRON_HUB_USER_ACKS_H
#define CLAIRON_HUB_USER_ACKS_H

#include <stdbool.h>
#include <stddef.h>

struct hub;
struct session;

/*
 * Applies acknowledgements of the user. `ids` are lower case UUIDs, as client_message.h returns
 * them; count <= SESSION_ACKS_MAX.
 */
void session_ack(struct session *session, const char *const *ids, size_t count);

/* Like session_ack, without a connection: all sessions of the user receive `acked`. */
void hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count);

/*
 * Call it when another relay has stored these acks, or the retries of these notifications have
 * ended. `ids` are lower case UUIDs.
 */
void hub_end_acks(struct hub *hub, const char *user, const char *const *ids, size_t count,
                  bool was_acked);

#endif
