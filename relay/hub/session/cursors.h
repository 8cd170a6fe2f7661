/* cursors.h: the cursors of a session, and those that it reports. */
#ifndef CLAIRON_HUB_SESSION_CURSORS_H
#define CLAIRON_HUB_SESSION_CURSORS_H

#include "hub/fanout/client_pos.h"
#include "hub/session/session_state.h"

/*
 * The hub's cursor in the two streams of this session: the shared one and its user's shard. Pages
 * of the store are read up to here only: memberships are known up to here, and the store does not
 * read two streams at one moment.
 */
struct cursor session_head(const struct session *session);

/* All notifications before it were sent to this session, or are not for its audiences. */
struct cursor session_reached(const struct session *session);

/* `to`, or where a client has to resume to receive all that is queued, if that is earlier. */
struct cursor session_before_queue(const struct session *session, struct cursor to);

/* The cursor after this notification. */
struct cursor session_cursor_behind(const struct session *session,
                                    const struct notification *notification);

/* The notification of a stream entry, without targets if delivery.hide_targets is on. */
struct notification *hub_notification_new(const struct hub *hub, const struct entry *entry,
                                          const struct entry_id *heads);

/* Notifications that report a cursor of this session only. The caller owns one reference. */
struct notification *session_notification_new(const struct session *session,
                                              const struct entry *entry, struct cursor cursor);
struct notification *session_notification_at(const struct session *session,
                                             const struct notification *notification,
                                             struct cursor cursor,
                                             const struct notification *overtaken);

void session_pos_text(const struct session *session, struct cursor cursor,
                      char ret_text[CLIENT_POS_MAX]);

#endif
