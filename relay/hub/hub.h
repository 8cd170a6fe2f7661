/* hub.h: delivers notifications to the sessions of their audiences. */
#ifndef CLAIRON_HUB_HUB_H
#define CLAIRON_HUB_HUB_H

#include "base/config.h"
#include "base/stats.h"
#include "hub/session.h"
#include "store/entry.h"

struct ev_loop;
struct rows;
struct store;

/*
 * Reads the store's stream from its end and serves sessions. config, rows (may be NULL) and stats
 * must outlive it.
 */
struct hub *hub_open(struct ev_loop *loop, const struct config *config, struct store *store,
                     struct rows *rows, struct stats *stats);

/* Stops reading. All sessions must have been detached. Accepts NULL. */
void hub_close(struct hub *hub);

/* Call it after hub_close and store_close, because replies may arrive until then. Accepts NULL. */
void hub_free(struct hub *hub);

/* Returns the store from which the hub reads. */
struct store *hub_store(const struct hub *hub);

/* Returns the reader of rows; NULL: no connection string. */
struct rows *hub_rows(const struct hub *hub);

/*
 * Returns the total of the bytes that wait for sockets. A transport adds the blocks that it keeps
 * (shared_wait).
 */
size_t *hub_waiting_bytes(struct hub *hub);

/* Returns the number of sessions of a user on this relay. */
size_t hub_user_sessions(struct hub *hub, const char *user);

/* Like session_ack, without a connection: all sessions of the user receive `acked`. */
void hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count);

/* Like session_nack, without a connection. RC_AGAIN: the store is down; nothing was sent. */
MUST_CHECK enum rc hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count,
                            int64_t delay_ms);

/* The cursor up to which the relay has read the streams of a user. */
struct hub_cursor {
    bool is_known; /* the store has been up */
    unsigned own_shard;
    struct cursor cursor;
};

/*
 * Returns the cursor of a client without a session: its `pos`, which another relay may have sent.
 * If `pos` is NULL or invalid, the cursor up to which this relay has read.
 */
struct hub_cursor hub_cursor_of(const struct hub *hub, const char *user, const char *pos);
bool hub_accepts_snapshot(const struct hub *hub, const struct hub_cursor *reached,
                          const struct snapshot *snapshot);

#endif
