/* resume.h: the resume cursor of a session, and the check for lost notifications after it. */
#ifndef CLAIRON_HUB_PARTS_RESUME_H
#define CLAIRON_HUB_PARTS_RESUME_H

#include <stdbool.h>

#include "store/cursor.h"

/*
 * The progress of a session's resume, which happens once. Only the functions below change the
 * state.
 *
 * CHECKING: checks page by page whether all stream entries after the client's cursor still exist.
 * Next: STARTED.
 *
 * STARTED: `connected` was sent to the client. Notifications after the cursor at that time are new
 * to the client. Next: CAUGHT_UP.
 *
 * CAUGHT_UP: the session has been LIVE. This state is final.
 */
enum resume_state { RESUME_CHECKING, RESUME_STARTED, RESUME_CAUGHT_UP };

#define RESUME_PAGES_MAX 64 /* maximum pages that are checked for losses */

/* Initially zeroed. */
struct session_resume {
    char *pos; /* cursor from the client; NULL: none, or after CHECKING */
    union {
        struct cursor checked;    /* in CHECKING: nothing was lost up to this cursor */
        struct cursor started_at; /* after CHECKING: start of the session */
    };
    enum resume_state state;
    unsigned checked_pages;
    bool is_continued; /* this poll continues from the cursor of the previous poll */
};

/* Sets the client's cursor, which is copied. NULL or empty: only new notifications are sent. */
void resume_set_pos(struct session_resume *resume, const char *pos);

static inline const char *
resume_pos(const struct session_resume *resume)
{
    return resume->pos;
}

/* No notification was lost up to this cursor. Never moves backwards. */
void resume_check_to(struct session_resume *resume, struct cursor cursor);

static inline struct cursor
resume_checked(const struct session_resume *resume)
{
    return resume->checked;
}

/* A page was checked. */
void resume_count_page(struct session_resume *resume);

/* True if no further page is checked. The first page is always checked. */
bool resume_is_too_far_behind(const struct session_resume *resume, bool budget_is_spent);

/* The check has ended; the session continues from `cursor`. */
void resume_start(struct session_resume *resume, struct cursor cursor, bool is_continued);

static inline bool
resume_is_continued(const struct session_resume *resume)
{
    return resume->is_continued;
}

/* True if this stream entry is after the cursor at which the session started. */
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

/* Allowed in CHECKING too. */
void resume_free(struct session_resume *resume);

#endif
