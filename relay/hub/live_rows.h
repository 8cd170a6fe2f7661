/* live_rows.h: client requests for the rows of live rules. */
#ifndef CLAIRON_HUB_LIVE_ROWS_H
#define CLAIRON_HUB_LIVE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "store/entry.h"

struct hub;
struct rows;
struct session;
struct snapshot;

/*
 * Sends the rows that the rule addresses to the session's user as `rows` frames, or an `err` frame.
 * Later changes of the user's memberships send `reload`. Returns false and sends nothing if too
 * many replies are queued; the caller rejects the request.
 */
MUST_CHECK bool session_request_rows(struct session *session, const char *source, const char *rule,
                                     int64_t request_id);

/*
 * The client has read rows of this rule elsewhere. From now on, changes of these rows without
 * notifications send `reload`.
 */
void session_watch_rows(struct session *session, const char *source, const char *rule);

/*
 * For rows of this rule that the application has read. True if the snapshot contains all
 * transactions that have a notification before the cursor. Also watches the rows.
 */
bool session_accepts_snapshot(struct session *session, const char *source, const char *rule,
                              const struct snapshot *snapshot);

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

/* Returns the reader of rows; NULL: no connection string. */
struct rows *hub_rows(const struct hub *hub);

#endif
