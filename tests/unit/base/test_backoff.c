/* test_backoff.c: does the delay double, stay in its range and never overflow? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/backoff.h"
#include "base/clock.h"

static void
doubles_up_to_the_cap(void **state)
{
    struct backoff backoff = {.base_ms = 100, .cap_ms = 1000};
    const int64_t full[] = {100, 200, 400, 800, 1000, 1000};

    (void)state;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 6; i++)
            assert_in_range(backoff_next_ms(&backoff), full[i] / 2, full[i]);
        assert_int_equal(backoff.failures, 6);
        backoff_reset(&backoff);
    }
}

static void
spreads_the_delays(void **state)
{
    int64_t least = INT64_MAX, most = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct backoff backoff = {.base_ms = 1000000, .cap_ms = 1000000};
        int64_t delay = backoff_next_ms(&backoff);

        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
    }
    /* A thousand even draws all miss one tenth of the range once in 10^45 runs. */
    assert_true(least < 550000 && most > 950000);
}

static void
survives_extremes(void **state)
{
    struct backoff tired = {.base_ms = 1, .cap_ms = INT64_MAX, .failures = UINT32_MAX};
    struct backoff none = {.base_ms = 0, .cap_ms = 1000};

    (void)state;
    assert_true(backoff_next_ms(&tired) >= INT64_MAX / 2);
    assert_int_equal(tired.failures, UINT32_MAX);
    assert_int_equal(backoff_next_ms(&none), 0);
}

static void
clocks_tell_microseconds(void **state)
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
        cmocka_unit_test(doubles_up_to_the_cap),
        cmocka_unit_test(spreads_the_delays),
        cmocka_unit_test(survives_extremes),
        cmocka_unit_test(clocks_tell_microseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
