/* test_rates.c: one token bucket per key; full buckets are evicted. */
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
bucket_refills_with_time(void **state)
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
rate_zero_is_unlimited(void **state)
{
    struct rate_bucket bucket = {0};
    struct rates *rates = rates_new(1);
    char name[16];

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(rate_bucket_consume(&bucket, 0, BEGIN));
    assert_true(rates_consume(rates, "busy", 1, BEGIN));
    for (int i = 0; i < RATES_NAMES_MAX; i++) {
        snprintf(name, sizeof(name), "u%d", i);
        assert_true(rates_consume(rates, name, 0, BEGIN));
    }
    /* Unlimited keys have no buckets, so none is evicted. */
    assert_false(rates_consume(rates, "busy", 1, BEGIN));
    rates_free(rates);
}

static void
each_key_has_a_separate_bucket(void **state)
{
    struct rates *rates = rates_new(1);

    (void)state;
    assert_true(rates_consume(rates, "u1", 2, BEGIN));
    assert_true(rates_consume(rates, "u1", 2, BEGIN));
    assert_false(rates_consume(rates, "u1", 2, BEGIN));
    assert_true(rates_consume(rates, "u2", 2, BEGIN));
    assert_false(rates_consume(rates, "u1", 2, BEGIN + 1));
    rates_refund(rates, "u1", 1);
    rates_refund(rates, "nobody", 1);
    assert_true(rates_consume(rates, "u1", 2, BEGIN + 2));
    assert_false(rates_consume(rates, "u1", 2, BEGIN + 3));
    rates_free(rates);
}

static void
burst_and_charge_last_for_several_seconds(void **state)
{
    struct rates *rates = rates_new(3);

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_true(rates_has(rates, "u1", 2, BEGIN));
        assert_true(rates_consume(rates, "u1", 2, BEGIN));
    }
    assert_false(rates_has(rates, "u1", 2, BEGIN));
    assert_true(rates_has(rates, "u2", 2, BEGIN));
    rates_refund(rates, "u1", -3);
    assert_false(rates_consume(rates, "u1", 2, BEGIN + SECOND));
    assert_false(rates_has(rates, "u1", 2, BEGIN + 2 * SECOND - 1));
    assert_true(rates_consume(rates, "u1", 2, BEGIN + 2 * SECOND));
    assert_false(rates_consume(rates, "u1", 2, BEGIN + 2 * SECOND));
    rates_free(rates);
}

/* Only an evicted bucket is full at `at_us`, the time of its last use. */
static bool
is_full(struct rates *rates, const char *name, int64_t rate, int64_t at_us)
{
    bool is_full = true;

    for (int64_t i = 0; i < rate; i++)
        is_full = rates_consume(rates, name, rate, at_us) && is_full;
    return is_full;
}

static void
full_buckets_are_evicted(void **state)
{
    struct rates *rates = rates_new(1);
    char name[16];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "u%d", i);
        assert_true(rates_consume(rates, name, 10, BEGIN + i));
    }
    assert_false(is_full(rates, "u0", 10, BEGIN));
    for (int i = 0; i < 100; i++)
        assert_int_equal(rates_consume(rates, "busy", 10, BEGIN + SECOND + 100), i < 10);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "u%d", i);
        assert_true(is_full(rates, name, 10, BEGIN + i));
    }
    rates_free(rates);
}

static void
active_buckets_survive_the_key_limit(void **state)
{
    struct rates *rates = rates_new(1);
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
    assert_false(rates_consume(rates, "busy", 2, BEGIN));
    assert_false(is_full(rates, "u101", 2, BEGIN)); /* the maximum: busy, and u101 to u4195 */
    assert_true(is_full(rates, "u100", 2, BEGIN));
    assert_true(rates_consume(rates, "once", 1, BEGIN)); /* evicted, so its bucket is full again */
    rates_free(rates);
    rates_free(NULL);
}

static void
message_is_logged_at_a_limited_rate(void **state)
{
    struct throttle throttle = {0};
    unsigned skipped = 7;

    (void)state;
    assert_true(throttle_allows(&throttle, BEGIN, &skipped));
    assert_int_equal(skipped, 0);
    assert_false(throttle_allows(&throttle, BEGIN, &skipped));
    assert_false(throttle_allows(&throttle, BEGIN + THROTTLE_EVERY_US - 1, &skipped));
    assert_true(throttle_allows(&throttle, BEGIN + THROTTLE_EVERY_US, &skipped));
    assert_int_equal(skipped, 2);
}

static void
newest_kinds_of_messages_replace_the_oldest(void **state)
{
    struct throttles throttles = {0};
    unsigned skipped;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        for (uint64_t kind = 0; kind <= THROTTLES_MAX; kind++)
            assert_true(throttle_allows(throttles_find(&throttles, kind), BEGIN, &skipped));
        assert_false(throttle_allows(throttles_find(&throttles, THROTTLES_MAX), BEGIN, &skipped));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_refills_with_time),
        cmocka_unit_test(rate_zero_is_unlimited),
        cmocka_unit_test(each_key_has_a_separate_bucket),
        cmocka_unit_test(burst_and_charge_last_for_several_seconds),
        cmocka_unit_test(full_buckets_are_evicted),
        cmocka_unit_test(active_buckets_survive_the_key_limit),
        cmocka_unit_test(message_is_logged_at_a_limited_rate),
        cmocka_unit_test(newest_kinds_of_messages_replace_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
