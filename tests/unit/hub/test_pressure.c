/* test_pressure.c: load shedding starts, increases and ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hub/hub_private.h"

#define EVERY_US (PRESSURE_EVERY_MS * 1000)

static const struct pressure_limits LIMITS = {.delay_us = 1000000, .bytes = 1000};

/* Adds the same measurement `times` times, starting at *now_us. Returns the level. */
static enum pressure_level
measure(struct pressure *pressure, const struct pressure_limits *limits, int64_t *now_us, int times,
        int64_t delay_us, size_t bytes)
{
    while (times-- > 0) {
        enum pressure_level before = pressure->level;
        bool has_changed;

        *now_us += EVERY_US;
        has_changed = pressure_measure(pressure, limits, *now_us, delay_us, bytes);
        assert_int_equal(has_changed, pressure->level != before);
    }
    return pressure->level;
}

static void
one_long_pause_is_not_overload(void **state)
{
    struct pressure pressure = {0};
    int64_t now_us = 1;

    (void)state;
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 1, 3600000000, 0), PRESSURE_NONE);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 50, 0, 0), PRESSURE_NONE);
}

static void
a_lasting_delay_is_overload(void **state)
{
    struct pressure pressure = {0};
    int64_t now_us = 1;

    (void)state;
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 50, 999999, 999), PRESSURE_NONE);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 8, 1900000, 0), PRESSURE_NORMAL);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 50, 600000, 0), PRESSURE_NORMAL);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 50, 400000, 0), PRESSURE_NONE);
}

static void
low_is_dropped_before_normal(void **state)
{
    struct pressure pressure = {0};
    int64_t now_us = 1;

    (void)state;
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 1, 0, 1000), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 4, 0, 1000), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 1, 0, 1000), PRESSURE_NORMAL);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 50, 0, 5000), PRESSURE_NORMAL);
}

static void
the_level_stays_between_half_and_full_limit(void **state)
{
    struct pressure pressure = {0};
    int64_t now_us = 1;

    (void)state;
    (void)measure(&pressure, &LIMITS, &now_us, 1, 0, 1000);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 50, 0, 999), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 50, 0, 500), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 5, 0, 499), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 1, 0, 999), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 5, 0, 499), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 1, 0, 499), PRESSURE_NONE);
}

static void
the_level_falls_step_by_step(void **state)
{
    struct pressure pressure = {0};
    int64_t now_us = 1;

    (void)state;
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 6, 0, 1000), PRESSURE_NORMAL);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 6, 0, 0), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 4, 0, 0), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &LIMITS, &now_us, 1, 0, 0), PRESSURE_NONE);
}

static void
a_limit_of_zero_is_disabled(void **state)
{
    const struct pressure_limits no_lag = {.delay_us = 0, .bytes = 1000};
    const struct pressure_limits no_bytes = {.delay_us = 1000000, .bytes = 0};
    struct pressure pressure = {0};
    int64_t now_us = 1;

    (void)state;
    assert_int_equal(measure(&pressure, &no_lag, &now_us, 50, 9000000, 0), PRESSURE_NONE);
    assert_int_equal(measure(&pressure, &no_lag, &now_us, 1, 9000000, 1000), PRESSURE_LOW);
    assert_int_equal(measure(&pressure, &no_lag, &now_us, 6, 9000000, 0), PRESSURE_NONE);
    pressure = (struct pressure){0};
    assert_int_equal(measure(&pressure, &no_bytes, &now_us, 50, 0, SIZE_MAX), PRESSURE_NONE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_long_pause_is_not_overload),
        cmocka_unit_test(a_lasting_delay_is_overload),
        cmocka_unit_test(low_is_dropped_before_normal),
        cmocka_unit_test(the_level_stays_between_half_and_full_limit),
        cmocka_unit_test(the_level_falls_step_by_step),
        cmocka_unit_test(a_limit_of_zero_is_disabled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
