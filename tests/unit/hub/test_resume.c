/* test_resume.c: a resume checks a limited number of pages, starts once, and catches up once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hub/parts/resume.h"

static struct cursor
at(uint64_t shared_ms, uint64_t own_ms)
{
    return (struct cursor){.shared = {shared_ms, 0}, .own = {own_ms, 0}};
}

static void
test_an_empty_pos_is_ignored(void **state)
{
    struct session_resume resume = {.pos = NULL};

    (void)state;
    resume_set_pos(&resume, NULL);
    assert_null(resume_pos(&resume));
    resume_set_pos(&resume, "");
    assert_null(resume_pos(&resume));
}

static void
test_pos_is_kept_until_the_resume_starts(void **state)
{
    struct session_resume resume = {.pos = NULL}, closed = {.pos = NULL};
    char text[] = "e.7-0";

    (void)state;
    resume_set_pos(&resume, text);
    text[0] = 'f';
    assert_string_equal(resume_pos(&resume), "e.7-0");
    resume_start(&resume, at(7, 0), false);
    assert_null(resume_pos(&resume));
    resume_free(&resume);
    resume_set_pos(&closed, text);
    resume_free(&closed); /* the session closes while CHECKING */
    assert_null(resume_pos(&closed));
}

static void
test_the_checked_cursor_moves_forward_in_each_shard(void **state)
{
    struct session_resume resume = {.pos = NULL};

    (void)state;
    resume_check_to(&resume, at(5, 9));
    assert_true(cursor_equal(resume_checked(&resume), at(5, 9)));
    resume_check_to(&resume, at(7, 3)); /* the client's cursor, parsed again */
    assert_true(cursor_equal(resume_checked(&resume), at(7, 9)));
}

static void
test_the_first_page_is_always_checked(void **state)
{
    struct session_resume resume = {.pos = NULL};

    (void)state;
    assert_false(resume_is_too_far_behind(&resume, true));
    resume_count_page(&resume);
    assert_true(resume_is_too_far_behind(&resume, true));
    assert_false(resume_is_too_far_behind(&resume, false));
    for (unsigned i = 1; i < RESUME_PAGES_MAX; i++) {
        assert_false(resume_is_too_far_behind(&resume, false));
        resume_count_page(&resume);
    }
    assert_true(resume_is_too_far_behind(&resume, false));
}

static void
test_entries_after_the_start_are_new(void **state)
{
    struct session_resume resume = {.pos = NULL};

    (void)state;
    resume_check_to(&resume, at(100, 100)); /* stored in the same memory as the start */
    resume_start(&resume, at(5, 9), true);
    assert_true(resume_is_continued(&resume));
    assert_false(resume_is_before(&resume, 0, (struct entry_id){5, 0}));
    assert_true(resume_is_before(&resume, 0, (struct entry_id){5, 1}));
    assert_false(resume_is_before(&resume, 3, (struct entry_id){9, 0}));
    assert_true(resume_is_before(&resume, 3, (struct entry_id){10, 0}));
}

static void
test_a_resume_catches_up_once(void **state)
{
    struct session_resume resume = {.pos = NULL};

    (void)state;
    assert_false(resume_has_caught_up(&resume));
    resume_start(&resume, at(1, 1), false);
    assert_false(resume_has_caught_up(&resume));
    assert_false(resume_is_continued(&resume));
    resume_catch_up(&resume);
    assert_true(resume_has_caught_up(&resume));
    resume_catch_up(&resume); /* the session is LIVE again */
    assert_true(resume_has_caught_up(&resume));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_pos_is_ignored),
        cmocka_unit_test(test_pos_is_kept_until_the_resume_starts),
        cmocka_unit_test(test_the_checked_cursor_moves_forward_in_each_shard),
        cmocka_unit_test(test_the_first_page_is_always_checked),
        cmocka_unit_test(test_entries_after_the_start_are_new),
        cmocka_unit_test(test_a_resume_catches_up_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
