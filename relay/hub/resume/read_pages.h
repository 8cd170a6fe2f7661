/* read_pages.h: reads pages of the stream, within the budgets of the users. */
#ifndef CLAIRON_HUB_RESUME_READ_PAGES_H
#define CLAIRON_HUB_RESUME_READ_PAGES_H

#include <stdbool.h>

#include "store/store.h"

struct hub;
struct session;

void resumes_open(struct hub *hub);
/* After this call no further turn is granted. */
void resumes_stop(struct hub *hub);
/* Requires that no session is left. */
void resumes_close(struct hub *hub);

/* True if the budget of the session's user is spent. */
bool session_budget_is_spent(struct session *session);

/*
 * True if the session may read a page of the stream or of an inbox. Otherwise it waits, and will be
 * advanced. session_end_page ends the page.
 */
MUST_CHECK bool session_begin_page(struct session *session);
/* `page`: what was read; NULL: the request failed. */
void session_end_page(struct session *session, const struct store_page *page);

/*
 * Calls store_range for the stream entries after `after`, immediately or when the session's turn is
 * granted. `done` must call session_end_stream_page first, with its page or NULL.
 */
void session_read_page(struct session *session, struct cursor after, size_t max, store_paged *done);
void session_end_stream_page(struct session *session, const struct store_page *page);

/*
 * Call it when the session has advanced. If it did not use its turn, the next session receives the
 * turn.
 */
void session_pass_turn(struct session *session);

/* Removes a session that is being closed. */
void session_leave_turns(struct session *session);

#endif
