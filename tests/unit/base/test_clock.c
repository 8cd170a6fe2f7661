/* test_clock.c: wall times are formatted as strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"

static void
times_have_six_or_three_fractional_digits(void **state)
{
    char text[CLOCK_TEXT_MAX];

    (void)state;
    clock_text_us(INT64_C(1742042096123456), text);
    assert_string_equal(text, "2025-03-15T12:34:56.123456Z");
    clock_text_us(7, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000007Z");
    clock_text_ms(INT64_C(1742042096012), text);
    assert_string_equal(text, "2025-03-15T12:34:56.012Z");
}

static void
string_of_the_last_possible_time_fits(void **state)
{
    char text[CLOCK_TEXT_MAX];

    (void)state;
    clock_text_us(INT64_MAX, text);
    assert_string_equal(text, "294247-01-10T04:00:54.775807Z");
    clock_text_ms(INT64_MAX, text);
    assert_string_equal(text, "292278994-08-17T07:12:55.807Z");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_six_or_three_fractional_digits),
        cmocka_unit_test(string_of_the_last_possible_time_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
