/* shed.h: selects the notifications that load shedding drops. */
#ifndef CLAIRON_HUB_SHED_H
#define CLAIRON_HUB_SHED_H

#include "hub/session_state.h"

/* True if this notification is dropped now. */
bool shed_drops(const struct hub *hub, const struct notification *notification);

/* Returns how many of the first notifications are not dropped. */
unsigned shed_count_kept(const struct hub *hub, struct notification *const *notifications,
                         unsigned count);

/*
 * Returns the cursor to report while notifications are dropped: not after the first dropped
 * notification, so that a client that resumes from the cursor receives the dropped notifications if
 * the load allows.
 */
struct cursor shed_cursor(const struct session *session, struct cursor cursor);

/* Like shed_cursor, with all shards, for a notification that was just read. */
const struct entry_id *shed_reported_heads(const struct hub *hub);

/*
 * True if the bytes that wait for all sockets exceed twice delivery.shed_bytes, and 64 MB, although
 * load shedding has dropped what it may. Then clients that accept nothing are closed
 * (session_slow), and no page is read for others.
 */
bool hub_is_over_limit(const struct hub *hub);

/* Records that this notification was dropped for this session; the gap is announced later. */
void session_count_shed(struct session *session, const struct notification *notification);

#endif
