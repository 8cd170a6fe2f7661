/* pages.h: reads pages for sessions, within the limits of all users and of each user. */
#ifndef CLAIRON_HUB_RESUME_PAGES_H
#define CLAIRON_HUB_RESUME_PAGES_H

#include <stdbool.h>

#include "base/rc.h"
#include "store/store.h"

struct hub;
struct session;

void pages_open(struct hub *hub);
/* After this call no session that waits is advanced. */
void pages_stop(struct hub *hub);
/* Requires that no session is left. */
void pages_close(struct hub *hub);

/* True if the session's user may read no further page of a stream now. */
bool session_budget_is_spent(struct session *session);

#define SESSION_PAGE 256 /* maximum notifications in one page */

/*
 * Reads a page of the stream, up to the hub's head, which needs a token of the session's user, or
 * of the pending list. If the session has to wait, or the store is unavailable, it is advanced
 * later to repeat the call. `done` must call session_page_arrived first.
 */
void session_read_range(struct session *session, struct cursor after, size_t max,
                        store_paged *done);
void session_read_inbox(struct session *session, const struct store_inbox_part *part,
                        store_paged *done);

/*
 * Must be called first in every reply callback. Returns false if the session is closed, is being
 * closed, or waits until the store is up again.
 */
bool session_reply_arrived(struct session *session, enum rc rc);
bool session_page_arrived(struct session *session, enum rc rc, const struct store_page *page,
                          bool is_of_stream);

/* Removes a session that is being closed. */
void session_leave_pages(struct session *session);

#endif
