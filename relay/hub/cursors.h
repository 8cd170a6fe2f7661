/* cursors.h: the cursors of a session, and the cursors that it reports. */
#ifndef CLAIRON_HUB_CURSORS_H
#define CLAIRON_HUB_CURSORS_H

#include "hub/client_pos.h"
#include "hub/session_state.h"

/*
 * Returns the hub's cursor in the two streams of this session: the shared stream and the user's
 * shard. Pages are read from the store only up to this cursor, because memberships are known up to
 * it, and the store does not read two streams at the same moment.
 */
struct cursor session_head(const struct session *session);

/*
 * Returns the cursor before which all notifications were sent to this session, or do not address
 * it.
 */
struct cursor session_reached(const struct session *session);

/*
 * Returns `to` or, if it is earlier, the cursor from which a client must resume to receive all
 * queued notifications.
 */
struct cursor session_before_queue(const struct session *session, struct cursor to);

/* Returns the cursor after this notification. */
struct cursor session_cursor_behind(const struct session *session,
                                    const struct notification *notification);

/* Returns the notification of a stream entry, without targets if delivery.hide_targets is on. */
struct notification *hub_notification_new(const struct hub *hub, const struct entry *entry,
                                          const struct entry_id *heads);

/* Return notifications that report cursors of this session only. The caller owns one reference. */
struct notification *session_notification_new(const struct session *session,
                                              const struct entry *entry, struct cursor cursor);
struct notification *session_notification_at(const struct session *session,
                                             struct notification *notification,
                                             struct cursor cursor,
                                             const struct notification *overtaken);

/*
 * True if a notification of this session with this cursor reports a deferral. `overtaken`: the
 * first queued notification that it overtakes; NULL: none.
 */
bool session_reports_deferral(const struct session *session, struct cursor cursor,
                              const struct notification *overtaken);

void session_pos_text(const struct session *session, struct cursor cursor,
                      char ret_text[CLIENT_POS_MAX]);

#endif
