/* test_backoff.c: the delay doubles, stays in its range and does not overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rates.h"
#include "base/clock.h"

static void
delay_doubles_up_to_the_cap(void **state)
{
    struct backoff backoff = {.base_ms = 100, .cap_ms = 1000};
    const int64_t full[] = {100, 200, 400, 800, 1000, 1000};

    (void)state;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 6; i++) {
            assert_int_equal(backoff_full_ms(&backoff), full[i]);
            assert_in_range(backoff_next_ms(&backoff), full[i] / 2, full[i]);
        }
        assert_int_equal(backoff.failures, 6);
        backoff_reset(&backoff);
    }
}

static void
jitter_spreads_the_delays(void **state)
{
    int64_t min = INT64_MAX, max = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct backoff backoff = {.base_ms = 1000000, .cap_ms = 1000000};
        int64_t delay = backoff_next_ms(&backoff);

        min = delay < min ? delay : min;
        max = delay > max ? delay : max;
    }
    /* The chance that 1000 uniform samples all miss one tenth of the range is 10^-45. */
    assert_true(min < 550000 && max > 950000);
}

static void
extreme_arguments_do_not_overflow(void **state)
{
    struct backoff tired = {.base_ms = 1, .cap_ms = INT64_MAX, .failures = UINT32_MAX};
    struct backoff none = {.base_ms = 0, .cap_ms = 1000};

    (void)state;
    assert_true(backoff_next_ms(&tired) >= INT64_MAX / 2);
    assert_int_equal(tired.failures, UINT32_MAX);
    assert_int_equal(backoff_next_ms(&none), 0);
}

static void
clocks_count_microseconds(void **state)
{
    int64_t before = clock_monotonic_us();

    (void)state;
    assert_true(clock_monotonic_us() >= before);
    assert_true(clock_wall_us() > INT64_C(1700000000000000));
    assert_true(clock_wall_us() < INT64_C(17000000000000000));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_doubles_up_to_the_cap),
        cmocka_unit_test(jitter_spreads_the_delays),
        cmocka_unit_test(extreme_arguments_do_not_overflow),
        cmocka_unit_test(clocks_count_microseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
