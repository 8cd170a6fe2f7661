/* hub.h: which session is owed which notification. */
#ifndef CLAIRON_HUB_HUB_H
#define CLAIRON_HUB_HUB_H

#include "base/config.h"
#include "base/stats.h"
#include "hub/session.h"

struct ev_loop;
struct store;

/* Reads the store's stream from its end on and serves sessions. config and stats must outlive it. */
struct hub *hub_open(struct ev_loop *loop, const struct config *config, struct store *store,
                     struct stats *stats);

/* All sessions must have been detached. Accepts NULL. */
void hub_close(struct hub *hub);

#endif
