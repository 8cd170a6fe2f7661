/* resume.h: the life of a session from its cursor to live delivery, and back. */
#ifndef CLAIRON_HUB_RESUME_H
#define CLAIRON_HUB_RESUME_H

#include <stdbool.h>

#include "base/rc.h"
#include "hub/session_private.h"
#include "store/store.h"

struct hub;

/* ---- loading.c: the state LOADING, before `connected` is sent */

/*
 * Checks what the client has lost since its cursor, page by page, and sends `connected`. Requires
 * current memberships.
 */
void session_load(struct session *session);

/*
 * Requests the session's memberships. session_reload_groups requests them again, after any pending
 * request. Call session_change_group when a row of clairon.member that assigns the user to this
 * audience was added or removed.
 */
void session_request_groups(struct session *session);
void session_reload_groups(struct session *session);
void session_change_group(struct session *session, const char *key, size_t len, bool is_added);

/*
 * Call it every few seconds. A session that has waited for five seconds without `connected`, and
 * whose user the store does not serve, is closed with a delay for its reconnect. Otherwise its
 * client would time out and reconnect, every few seconds.
 */
void unserved_sweep(struct hub *hub);

/* ---- resume.c: from `connected` to live delivery, and back */

/* Moves the session on in its state. Only the turn calls it; other code marks READY_ADVANCE. */
void session_advance(struct session *session);

/*
 * If the pending list must be read on and can be: changes the state from LIVE to PENDING and
 * returns true; the session must advance immediately. If it can be read only later, the session is
 * added to hub->refills.
 */
bool session_refill(struct session *session);

/* Marks all sessions of hub->refills to refill. */
void refills_wake(struct hub *hub);
void refills_open(struct hub *hub);
void refills_stop(struct hub *hub);

/* Removes a session that is being closed from all lists. */
void session_leave_resume(struct session *session);

/* Call it when the store was emptied: no stream entry before the hub's head exists. */
void session_change_epoch(struct session *session);

/* The ids of the shard are limited by `limit`: the end of the former history was lost. */
void session_limit_ids(struct session *session, unsigned shard,
                       void (*limit)(const struct hub *hub, unsigned shard, struct entry_id *id));

/* ---- pages.c: reads pages, within the limits of all users and of each user */

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
void session_read_pending(struct session *session, const struct store_pending_part *part,
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
