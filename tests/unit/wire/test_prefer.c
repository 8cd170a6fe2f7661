/* test_prefer.c: the seconds of the preference "wait" are read from Prefer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/prefer.h"

#define DEFAULT_S 8

static void
assert_wait(const char *value, int expected_s)
{
    int seconds = prefer_wait_s(value, DEFAULT_S);

    if (seconds != expected_s)
        fail_msg("\"%s\": %d s", value, seconds);
}

static void
wait_is_read(void **state)
{
    (void)state;
    assert_wait("wait=10", 10);
    assert_wait("WAIT = \"10\" ; x", 10);
    assert_wait("wait", DEFAULT_S);
    assert_wait("wait; x", DEFAULT_S);
    assert_wait("respond-async, wait=3600", 3600);
}

static void
first_of_duplicates_is_used(void **state)
{
    (void)state;
    assert_wait("wait=5, wait=10", 5);
    assert_wait("wait, wait=10", DEFAULT_S);
}

static void
quoted_commas_separate_nothing(void **state)
{
    (void)state;
    assert_wait("x=\", wait=10, \"", 0);
    assert_wait("x=\"\\\", wait=10, \", wait=5", 5);
}

static void
invalid_or_too_long_is_ignored(void **state)
{
    (void)state;
    assert_wait("", 0);
    assert_wait("wait=", 0);
    assert_wait("wait=-1", 0);
    assert_wait("wait=1s", 0);
    assert_wait("wait=\"1", 0);
    assert_wait("waiting=1", 0);
    assert_wait("wait=3601", 0);
    assert_wait("wait=99999999999999999999", 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_is_read),
        cmocka_unit_test(first_of_duplicates_is_used),
        cmocka_unit_test(quoted_commas_separate_nothing),
        cmocka_unit_test(invalid_or_too_long_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
