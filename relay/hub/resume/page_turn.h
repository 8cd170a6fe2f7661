/* page_turn.h: the budget of pages that the sessions of a user read from the store. */
#ifndef CLAIRON_HUB_RESUME_PAGE_TURN_H
#define CLAIRON_HUB_RESUME_PAGE_TURN_H

#include "store/store.h"

struct hub;
struct session;

void resumes_open(struct hub *hub);
/* No session may be left. */
void resumes_close(struct hub *hub);

/* True if the budget of its user is used up. */
bool resume_budget_is_spent(struct session *session);

/*
 * store_range of what follows `after`, now or when it is the session's turn. `done` must call
 * resume_answered first.
 */
void resume_range(struct session *session, struct cursor after, size_t max, store_paged *done);
void resume_answered(struct session *session);

/* The session advanced: if it did not use the turn that it was granted, the next one gets it. */
void resume_pass_on(struct session *session);

/* The session ends. */
void resume_leave(struct session *session);

#endif
