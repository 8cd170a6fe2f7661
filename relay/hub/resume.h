/* resume.h: pages of the stream that sessions read from the store, user by user. */
#ifndef CLAIRON_HUB_RESUME_H
#define CLAIRON_HUB_RESUME_H

#include <ev.h>
#include <stdbool.h>

#include "store/store.h"

struct hub;
struct session;
struct resume_user; /* resume.c */

/*
 * A session that comes back with an old position makes the store read every later notification,
 * whomever it is for. All sessions of a user share a budget of such pages (`delivery.resume_pages`
 * a second, and 60 seconds' worth at once), and one page of theirs is under way at a time, so that
 * users who resume at the same time get the store in turns, however many sessions each of them has.
 * A session that has to wait asks later, from its cursor: nothing is lost.
 */
struct resumes {
    struct resume_user *users; /* uthash */
    ev_timer turns;            /* while users wait for their budget */
    bool is_serving;           /* no user is forgotten meanwhile */
};

/* Where a session resumes, and its turn to read pages. */
struct session_resume {
    char *pos; /* what the client brought; NULL once used */
    union {
        struct cursor checked;  /* nothing was lost between its position and here; then: */
        struct cursor began_at; /* where it was to resume */
    };
    struct session *next; /* of the same user, while waits_for_turn */
    struct session *prev;
    unsigned checked_pages;
    bool is_continued; /* a poll: the one before reported where this one resumes */
    bool waits_for_turn;
    bool is_caught_up; /* it was live once */
};

/* The budget of its user is used up. */
bool resume_is_spent(struct session *session);

void resumes_open(struct hub *hub);
/* No session is left. */
void resumes_close(struct hub *hub);

/* store_range of what follows `after`, now or in its turn; `done` begins with resume_answered. */
void resume_range(struct session *session, struct cursor after, size_t max, store_paged *done);
void resume_answered(struct session *session);

/* The session ends, and waits no more. */
void resume_leave(struct session *session);

#endif
