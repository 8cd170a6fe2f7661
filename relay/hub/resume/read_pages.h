/* read_pages.h: reads pages of the stream, within the budgets of the users. */
#ifndef CLAIRON_HUB_RESUME_READ_PAGES_H
#define CLAIRON_HUB_RESUME_READ_PAGES_H

#include <stdbool.h>

#include "store/store.h"

struct hub;
struct session;

void resumes_open(struct hub *hub);
/* Grants no further turn. */
void resumes_stop(struct hub *hub);
/* No session may be left. */
void resumes_close(struct hub *hub);

/* True if the budget of its user is spent. */
bool session_budget_is_spent(struct session *session);

/*
 * store_range of the entries after `after`, now or when it is the session's turn. `done` must call
 * session_end_page first.
 */
void session_read_page(struct session *session, struct cursor after, size_t max, store_paged *done);
void session_end_page(struct session *session);

/* The session advanced: if it did not use the turn that it was granted, the next one gets it. */
void session_pass_turn(struct session *session);

/* The session ends. */
void session_leave_turns(struct session *session);

#endif
