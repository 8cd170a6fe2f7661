/* nacks.h: handles negative acknowledgements. */
#ifndef CLAIRON_HUB_NACKS_H
#define CLAIRON_HUB_NACKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

struct hub;
struct session;

/* The user rejected these notifications: the store retries them after delay_ms at the earliest. */
void session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms);

/* Like session_nack, without a connection. RC_AGAIN: the store is down; nothing was sent. */
MUST_CHECK enum rc hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count,
                            int64_t delay_ms);

#endif
