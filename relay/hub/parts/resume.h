/* resume.h: the resume cursor of a session, and the check of the stream after it for losses. */
#ifndef CLAIRON_HUB_PARTS_RESUME_H
#define CLAIRON_HUB_PARTS_RESUME_H

#include <stdbool.h>

#include "store/cursor.h"

/*
 * A session resumes once. Only the functions below change the state.
 *
 * CHECKING: entries after the client's cursor are checked page by page: do they all still exist?
 * Next: STARTED.
 *
 * STARTED: the client was sent `connected`. Entries after the cursor of that moment are new to it.
 * Next: CAUGHT_UP.
 *
 * CAUGHT_UP: the session was LIVE once. The state does not change any more.
 */
enum resume_state { RESUME_CHECKING, RESUME_STARTED, RESUME_CAUGHT_UP };

#define RESUME_PAGES_MAX 64 /* checked for losses */

/* Zeroed at the start. */
struct session_resume {
    char *pos; /* from the client; NULL: none, or no longer CHECKING */
    union {
        struct cursor checked;    /* CHECKING: nothing was lost up to here */
        struct cursor started_at; /* afterwards */
    };
    enum resume_state state;
    unsigned checked_pages;
    bool is_continued; /* a poll that resumes from the cursor of the previous one */
};

/* The text of the client's cursor. NULL or empty: only new notifications are sent. Copied. */
void resume_set_pos(struct session_resume *resume, const char *pos);

static inline const char *
resume_pos(const struct session_resume *resume)
{
    return resume->pos;
}

/* Nothing was lost up to this cursor. Never moves backwards. */
void resume_check_to(struct session_resume *resume, struct cursor cursor);

static inline struct cursor
resume_checked(const struct session_resume *resume)
{
    return resume->checked;
}

/* A page was checked. */
void resume_count_page(struct session_resume *resume);

/* True if no further page is checked. The first one always is. */
bool resume_is_too_far_behind(const struct session_resume *resume, bool budget_is_spent);

/* The check has ended; the session reads on from `cursor`. */
void resume_start(struct session_resume *resume, struct cursor cursor, bool is_continued);

static inline bool
resume_is_continued(const struct session_resume *resume)
{
    return resume->is_continued;
}

/* True if this entry is after the cursor at which it started. */
static inline bool
resume_is_before(const struct session_resume *resume, unsigned shard, struct entry_id id)
{
    return cursor_is_before(&resume->started_at, shard, id);
}

/* The session is LIVE. */
void resume_catch_up(struct session_resume *resume);

static inline bool
resume_has_caught_up(const struct session_resume *resume)
{
    return resume->state == RESUME_CAUGHT_UP;
}

/* Also while CHECKING. */
void resume_free(struct session_resume *resume);

#endif
