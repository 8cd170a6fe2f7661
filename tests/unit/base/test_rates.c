/* test_rates.c: each key has its rate, and its memory is freed when the rate no longer applies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rates.h"

#define SECOND INT64_C(1000000)
#define BEGIN (100 * SECOND)

static void
fills_as_time_goes_by(void **state)
{
    struct rate_bucket bucket = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_true(rate_bucket_consume(&bucket, 4, BEGIN));
    assert_false(rate_bucket_consume(&bucket, 4, BEGIN));
    assert_false(rate_bucket_consume(&bucket, 4, BEGIN + SECOND / 5));
    assert_true(rate_bucket_consume(&bucket, 4, BEGIN + SECOND / 4 + 1));
    assert_false(rate_bucket_consume(&bucket, 4, BEGIN + SECOND / 4 + 2));
    for (int i = 0; i < 4; i++)
        assert_true(rate_bucket_consume(&bucket, 4, BEGIN + 60 * SECOND));
    assert_false(
        rate_bucket_consume(&bucket, 4, BEGIN + 60 * SECOND)); /* capped at the bucket size */
}

static void
has_no_end_without_a_rate(void **state)
{
    struct rate_bucket bucket = {0};
    struct rates *rates = rates_new();

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(rate_bucket_consume(&bucket, 0, BEGIN));
        assert_true(rates_consume(rates, "u1", 0, BEGIN));
    }
    assert_int_equal(rates_count(rates), 0);
    rates_free(rates);
}

static void
keeps_names_apart(void **state)
{
    struct rates *rates = rates_new();

    (void)state;
    assert_true(rates_consume(rates, "u1", 2, BEGIN));
    assert_true(rates_consume(rates, "u1", 2, BEGIN));
    assert_false(rates_consume(rates, "u1", 2, BEGIN));
    assert_true(rates_consume(rates, "u2", 2, BEGIN));
    assert_false(rates_consume(rates, "u1", 2, BEGIN + 1));
    rates_refund(rates, "u1");
    rates_refund(rates, "nobody");
    assert_true(rates_consume(rates, "u1", 2, BEGIN + 2));
    assert_false(rates_consume(rates, "u1", 2, BEGIN + 3));
    rates_free(rates);
}

static void
forgets_who_is_full_again(void **state)
{
    struct rates *rates = rates_new();
    char name[16];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "u%d", i);
        assert_true(rates_consume(rates, name, 10, BEGIN + i));
    }
    assert_int_equal(rates_count(rates), 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rates_consume(rates, "busy", 10, BEGIN + SECOND + 100), i < 10);
    assert_int_equal(rates_count(rates), 1);
    rates_free(rates);
}

static void
keeps_who_takes_when_there_are_too_many(void **state)
{
    struct rates *rates = rates_new();
    char name[16];

    (void)state;
    assert_true(rates_consume(rates, "busy", 2, BEGIN));
    assert_true(rates_consume(rates, "once", 1, BEGIN));
    assert_true(rates_consume(rates, "busy", 2, BEGIN));
    for (int i = 0; i < RATES_NAMES_MAX + 100; i++) {
        snprintf(name, sizeof(name), "u%d", i);
        assert_true(rates_consume(rates, name, 2, BEGIN));
        if (i % 1000 == 0)
            assert_false(rates_consume(rates, "busy", 2, BEGIN));
    }
    assert_int_equal(rates_count(rates), RATES_NAMES_MAX);
    assert_false(rates_consume(rates, "busy", 2, BEGIN));
    assert_true(
        rates_consume(rates, "once", 1, BEGIN)); /* forgotten, so the bucket is full again */
    rates_free(rates);
    rates_free(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_as_time_goes_by),
        cmocka_unit_test(has_no_end_without_a_rate),
        cmocka_unit_test(keeps_names_apart),
        cmocka_unit_test(forgets_who_is_full_again),
        cmocka_unit_test(keeps_who_takes_when_there_are_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
