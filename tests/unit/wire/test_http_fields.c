/* test_http_fields.c: Prefer has seconds to wait, and Retry-After has seconds or a date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/http_fields.h"

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

#define NOW_S INT64_C(784111777) /* Sun, 06 Nov 1994 08:49:37 GMT */
#define HOUR_MS INT64_C(3600000)

static void
assert_delay(const char *value, int64_t expected_ms)
{
    int64_t ms = retry_after_ms(value, NOW_S, HOUR_MS);

    if (ms != expected_ms)
        fail_msg("\"%s\": %lld ms", value, (long long)ms);
}

static void
seconds_are_bounded(void **state)
{
    (void)state;
    assert_delay("0", 0);
    assert_delay("120", 120000);
    assert_delay("3600", HOUR_MS);
    assert_delay("3601", HOUR_MS);
    assert_delay("99999999999999999999999999", HOUR_MS);
}

static void
dates_of_all_three_forms_are_compared_with_the_clock(void **state)
{
    (void)state;
    assert_delay("Sun, 06 Nov 1994 08:50:07 GMT", 30000);
    assert_delay("Sunday, 06-Nov-94 08:50:07 GMT", 30000);
    assert_delay("Sun Nov  6 08:50:07 1994", 30000);
    assert_delay("Sun, 06 Nov 1994 08:49:37 GMT", 0);
    assert_delay("Sun, 06 Nov 1994 08:49:07 GMT", 0);
    assert_delay("Sat, 05 Nov 2095 08:49:37 GMT", HOUR_MS);
}

static void
other_values_are_invalid(void **state)
{
    (void)state;
    assert_delay("", -1);
    assert_delay("-1", -1);
    assert_delay("1.5", -1);
    assert_delay("120 s", -1);
    assert_delay("soon", -1);
    assert_delay("Sun, 06 Nov 1994 08:49:37", -1);
    assert_delay("Sun, 06 Nov 1994 25:49:37 GMT", -1);
    assert_delay("Sun, 06 Nov 1994 08:49:37 GMT, 120", -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_is_read),
        cmocka_unit_test(first_of_duplicates_is_used),
        cmocka_unit_test(quoted_commas_separate_nothing),
        cmocka_unit_test(invalid_or_too_long_is_ignored),
        cmocka_unit_test(seconds_are_bounded),
        cmocka_unit_test(dates_of_all_three_forms_are_compared_with_the_clock),
        cmocka_unit_test(other_values_are_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
