/* resume.c: the resume cursor of a session, and the check for lost notifications after it. */
#include "hub/parts/resume.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Aborts on a transition that resume.h does not list. */
static void
resume_set_state(struct session_resume *resume, enum resume_state state)
{
    static const unsigned before[] = {
        [RESUME_CHECKING] = 0,
        [RESUME_STARTED] = 1u << RESUME_CHECKING,
        [RESUME_CAUGHT_UP] = 1u << RESUME_STARTED,
    };

    if ((before[state] & 1u << resume->state) == 0)
        abort();
    resume->state = state;
}

void
resume_set_pos(struct session_resume *resume, const char *pos)
{
    if (pos != NULL && pos[0] != '\0')
        resume->pos = memory_text(pos, strlen(pos));
}

void
resume_check_to(struct session_resume *resume, struct cursor cursor)
{
    resume->checked = cursor_max(resume->checked, cursor);
}

void
resume_count_page(struct session_resume *resume)
{
    resume->checked_pages++;
}

bool
resume_is_too_far_behind(const struct session_resume *resume, bool budget_is_spent)
{
    return resume->checked_pages >= RESUME_PAGES_MAX ||
           (resume->checked_pages > 0 && budget_is_spent);
}

void
resume_start(struct session_resume *resume, struct cursor cursor, bool is_continued)
{
    resume_set_state(resume, RESUME_STARTED);
    resume_free(resume);
    resume->started_at = cursor;
    resume->is_continued = is_continued;
}

void
resume_catch_up(struct session_resume *resume)
{
    if (resume->state != RESUME_CAUGHT_UP)
        resume_set_state(resume, RESUME_CAUGHT_UP);
}

void
resume_free(struct session_resume *resume)
{
    free(resume->pos);
    resume->pos = NULL;
}
