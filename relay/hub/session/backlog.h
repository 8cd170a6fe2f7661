/* backlog.h: notifications in the inbox that wait for room in the in-flight window. */
#ifndef CLAIRON_HUB_SESSION_BACKLOG_H
#define CLAIRON_HUB_SESSION_BACKLOG_H

#include "hub/fanout/client_pos.h"
#include "hub/session/session_state.h"

void backlog_free(struct session *session);

/* Frees the backlog if it contains nothing to report and the outbound queue is empty. */
void backlog_end_if_empty(struct session *session);

/* Restores the backlog that the client's cursor reported. */
void backlog_restore(struct session *session, const struct backlog *reported);

/*
 * Adds a new notification for which the in-flight window had no room. `behind` is the session's
 * cursor.
 */
void backlog_add(struct session *session, const struct notification *notification,
                 struct cursor behind);

/* A query to the store checks whether an ack of this notification is still pending. */
void backlog_query(struct session *session, const struct notification *notification);

bool backlog_is_pending(const struct session *session);

/*
 * The store replied about a notification that was held back. True if the notification is sent now:
 * its ack is not pending, and no older notification waits in the backlog or unread in the inbox.
 * Otherwise the notification is dropped, and a gap follows the older notifications.
 */
bool backlog_decide(struct session *session, const struct notification *notification,
                    bool is_not_pending);

/* A notification that was held back is dropped without a gap, because it will be stored again. */
void backlog_forget(struct session *session, const struct notification *notification);

/* True if a notification with this inbox score is part of the backlog. */
bool backlog_has(const struct session *session, unsigned shard, uint64_t score);

/* Removes a notification from the backlog when it enters the in-flight window. */
void backlog_remove(struct session *session, const struct notification *notification);

/* The whole backlog was announced as a gap. */
void backlog_clear(struct session *session);

/*
 * Returns the backlog that a notification with this cursor reports; NULL: none. If it overtakes
 * other notifications, it reports the same backlog as the first of them (`overtaken`, may be NULL).
 * Valid while both notifications exist.
 */
const struct backlog *backlog_reported(const struct session *session, struct cursor cursor,
                                       const struct notification *overtaken);

#endif
