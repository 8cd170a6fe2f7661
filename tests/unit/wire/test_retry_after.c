/* test_retry_after.c: Retry-After is parsed as seconds or as a date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/retry_after.h"

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
        cmocka_unit_test(seconds_are_bounded),
        cmocka_unit_test(dates_of_all_three_forms_are_compared_with_the_clock),
        cmocka_unit_test(other_values_are_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
