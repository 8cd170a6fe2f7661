/* hub.h: delivers notifications to the sessions of their audiences. */
#ifndef CLAIRON_HUB_HUB_H
#define CLAIRON_HUB_HUB_H

#include "base/config.h"
#include "base/stats.h"
#include "hub/session.h"

struct ev_loop;
struct rows;
struct store;

/*
 * Reads the store's stream from its end and serves sessions. config, rows (may be NULL) and stats
 * must outlive it.
 */
struct hub *hub_open(struct ev_loop *loop, const struct config *config, struct store *store,
                     struct rows *rows, struct stats *stats);

/* Returns the store from which the hub reads. */
struct store *hub_store(const struct hub *hub);

/*
 * Returns the total of the bytes that wait for sockets. A transport adds the blocks that it keeps
 * (shared_wait).
 */
size_t *hub_waiting_bytes(struct hub *hub);

/* Returns the number of sessions of a user on this relay. */
size_t hub_user_sessions(struct hub *hub, const char *user);

/* Stops reading. All sessions must have been detached. Accepts NULL. */
void hub_close(struct hub *hub);

/* Call it after hub_close and store_close, because replies may arrive until then. Accepts NULL. */
void hub_free(struct hub *hub);

#endif
