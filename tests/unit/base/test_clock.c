/* test_clock.c: wall times are formatted as strings, and parsed. */
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

static void
http_dates_are_of_the_second(void **state)
{
    (void)state;
    assert_string_equal(clock_http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_string_equal(clock_http_date(999999), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_string_equal(clock_http_date(INT64_C(1742042096123456)),
                        "Sat, 15 Mar 2025 12:34:56 GMT");
    assert_string_equal(clock_http_date(INT64_C(1742042095000000)),
                        "Sat, 15 Mar 2025 12:34:55 GMT");
}

static void
times_are_read_with_any_fraction_and_offset(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        {"2025-03-15T12:34:56Z", INT64_C(1742042096000000)},
        {"2025-03-15T12:34:56.1Z", INT64_C(1742042096100000)},
        {"2025-03-15t12:34:56.123456z", INT64_C(1742042096123456)},
        {"2025-03-15 12:34:56.1234560000Z", INT64_C(1742042096123456)},
        {"2025-03-15T12:34:56.12345600001Z", INT64_C(1742042096123457)},
        {"2025-03-15T12:34:56.9999999+01:30", INT64_C(1742036697000000)},
        {"1969-12-31T23:59:59.5Z", -500000},
    };
    static const char *const bad[] = {"2025-03-15T12:34:56", "2025-03-15T12:34:56.Z",
                                      "2025-03-15T12:34:60Z", "2025-02-29T12:34:56Z",
                                      "2025-03-15T12:34:56Z+01:00"};
    int64_t us = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(clock_read_text(bad[i], &us));
    assert_int_equal(us, 7);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(clock_read_text(good[i].text, &us));
        assert_int_equal(us, good[i].us);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_six_or_three_fractional_digits),
        cmocka_unit_test(string_of_the_last_possible_time_fits),
        cmocka_unit_test(http_dates_are_of_the_second),
        cmocka_unit_test(times_are_read_with_any_fraction_and_offset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
