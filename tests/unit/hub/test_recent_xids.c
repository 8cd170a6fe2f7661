/* test_recent_xids.c: rows must contain the transactions of all notifications before a cursor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hub/recent_xids.h"

#define NOW_US INT64_C(1800000000000000)

static struct recent_xids recent;

static int
tear_down(void **state)
{
    (void)state;
    recent_xids_free(&recent);
    return 0;
}

static void
add(uint64_t xid, unsigned char shard, uint64_t ms)
{
    const struct recent_xid item = {xid, {ms, 0}, NOW_US, shard};

    recent_xids_add(&recent, &item);
}

static bool
are_in_at(struct cursor cursor, unsigned own, const char *text, int64_t now_us)
{
    struct snapshot snapshot;
    bool are_in;

    assert_int_equal(snapshot_parse(text, strlen(text), &snapshot), RC_OK);
    are_in = recent_xids_are_in(&recent, cursor, own, &snapshot, now_us);
    snapshot_free(&snapshot);
    return are_in;
}

static bool
are_in(uint64_t shared_ms, uint64_t own_ms, unsigned own, const char *text)
{
    return are_in_at((struct cursor){{shared_ms, 0}, {own_ms, 0}}, own, text, NOW_US);
}

static void
notifications_before_the_cursor_count(void **state)
{
    (void)state;
    assert_true(are_in(100, 0, 0, "1:1:"));
    add(7, 0, 10);
    add(8, 0, 20);
    assert_true(are_in(9, 0, 0, "7:7:"));
    assert_false(are_in(10, 0, 0, "7:7:"));
    assert_true(are_in(10, 0, 0, "8:8:"));
    assert_false(are_in(20, 0, 0, "8:8:"));
    assert_false(are_in(20, 0, 0, "8:9:8"));
    assert_true(are_in(20, 0, 0, "9:9:"));
}

static void
only_shards_that_the_user_reads_count(void **state)
{
    (void)state;
    add(7, 3, 10);
    assert_true(are_in(100, 100, 2, "7:7:"));
    assert_false(are_in(100, 100, 3, "7:7:"));
    assert_true(are_in(100, 9, 3, "7:7:"));
}

/* The cursor may be between the first and the last notification of a transaction. */
static void
first_notification_of_a_shard_counts(void **state)
{
    (void)state;
    add(7, 0, 10);
    add(7, 3, 11);
    add(7, 0, 12);
    add(7, 3, 13);
    assert_int_equal(recent.count, 2);
    assert_false(are_in(10, 0, 2, "7:7:"));
    assert_false(are_in(9, 11, 3, "7:7:"));
    assert_true(are_in(9, 10, 3, "7:7:"));
}

static void
transaction_without_a_notification_counts_for_all(void **state)
{
    (void)state;
    add(7, 0, 0);
    add(7, 2, 10);
    assert_int_equal(recent.count, 1);
    assert_false(are_in(0, 0, 5, "7:7:"));
    assert_true(are_in(0, 0, 5, "8:8:"));
    add(0, 0, 0);
    assert_int_equal(recent.count, 1);
}

/* No notification of a membership change follows, so it counts for all clients. */
static void
transaction_whose_notifications_come_first_counts_for_all(void **state)
{
    (void)state;
    add(7, 0, 10);
    add(7, 2, 11);
    assert_true(are_in(9, 9, 2, "7:7:"));
    add(7, 0, 0);
    assert_int_equal(recent.count, 2);
    assert_false(are_in(9, 9, 2, "7:7:"));
    assert_false(are_in(9, 9, 5, "7:7:"));
    add(7, 0, 12);
    assert_false(are_in(9, 9, 2, "7:7:"));
}

static void
old_transactions_do_not_count(void **state)
{
    const struct cursor cursor = {{100, 0}, {0, 0}};

    (void)state;
    add(7, 0, 10);
    assert_false(are_in_at(cursor, 0, "7:7:", NOW_US + RECENT_XIDS_AGE_US - 1));
    assert_true(are_in_at(cursor, 0, "7:7:", NOW_US + RECENT_XIDS_AGE_US));
}

static void
number_of_transactions_is_limited(void **state)
{
    (void)state;
    for (uint64_t xid = 1; xid <= RECENT_XIDS_MAX + 10; xid++)
        add(xid, 0, xid);
    assert_int_equal(recent.count, RECENT_XIDS_MAX);
    assert_true(are_in(10, 0, 0, "11:11:"));
    assert_false(are_in(11, 0, 0, "11:11:"));
    assert_false(are_in(RECENT_XIDS_MAX + 10, 0, 0, "4106:4106:"));
    assert_true(are_in(RECENT_XIDS_MAX + 10, 0, 0, "4107:4107:"));
}

static void
fill_with_newer(uint64_t xid)
{
    for (unsigned i = 0; i < RECENT_XIDS_MAX; i++)
        add(xid + i, 0, 1000);
}

/* Transactions do not commit in the order of their ids. */
static void
dropped_transactions_count_for_all(void **state)
{
    const struct cursor cursor = {{0, 0}, {0, 0}};

    (void)state;
    add(30, 3, 10);
    add(20, 0, 20);
    fill_with_newer(40);
    assert_int_equal(recent.count, RECENT_XIDS_MAX);
    assert_false(are_in(0, 0, 0, "20:21:"));   /* lacks the greatest id */
    assert_false(are_in(0, 0, 0, "20:40:20")); /* lacks the newest id */
    assert_false(are_in(0, 0, 0, "30:40:30"));
    assert_true(are_in(0, 0, 0, "25:40:25"));
    assert_true(are_in(0, 0, 0, "40:40:"));
    assert_false(are_in_at(cursor, 0, "20:21:", NOW_US + RECENT_XIDS_AGE_US - 1));
    assert_true(are_in_at(cursor, 0, "20:21:", NOW_US + RECENT_XIDS_AGE_US));
}

/*
 * A commit that waits for a synchronous standby stays invisible while many later commits become
 * visible.
 */
static void
dropped_transaction_that_still_runs_counts(void **state)
{
    (void)state;
    add(7, 0, 1);
    for (unsigned i = 0; i < 3; i++)
        fill_with_newer(100 + i * RECENT_XIDS_MAX);
    assert_false(are_in(0, 0, 0, "7:90000:7"));
    assert_true(are_in(0, 0, 0, "8:90000:8,90"));
    add(101 + RECENT_XIDS_EARLIER_MAX, 0, 1);
    fill_with_newer(102 + RECENT_XIDS_EARLIER_MAX);
    assert_true(are_in(0, 0, 0, "7:2000000:7")); /* dropped too long ago */
    assert_false(are_in(0, 0, 0, "102:2000000:102"));
}

/* The greatest dropped id is too old to count, but a smaller id that was dropped later counts. */
static void
dropped_transactions_count_by_age(void **state)
{
    const struct recent_xid old = {30, {1, 0}, NOW_US - RECENT_XIDS_AGE_US, 0};

    (void)state;
    recent_xids_add(&recent, &old);
    add(20, 0, 20);
    fill_with_newer(40);
    assert_true(are_in(0, 0, 0, "21:21:"));
    assert_false(are_in(0, 0, 0, "20:20:"));
}

static void
earlier_transactions_count_for_all(void **state)
{
    (void)state;
    recent_xids_add_earlier(&recent, 20, NOW_US);
    recent_xids_add_earlier(&recent, 30, NOW_US - 1);
    recent_xids_add_earlier(&recent, 0, NOW_US);
    assert_false(are_in(0, 0, 0, "20:40:20"));
    assert_false(are_in(0, 0, 0, "30:30:"));
    assert_true(are_in(0, 0, 0, "31:31:"));
    assert_int_equal(recent.count, 0);
}

static void
all_transactions_count_after_ids_are_cleared(void **state)
{
    (void)state;
    add(7, 3, 10);
    recent_xids_clear_ids(&recent);
    assert_false(are_in(0, 0, 0, "7:7:"));
}

#define CASE(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(notifications_before_the_cursor_count),
        CASE(only_shards_that_the_user_reads_count),
        CASE(first_notification_of_a_shard_counts),
        CASE(transaction_without_a_notification_counts_for_all),
        CASE(transaction_whose_notifications_come_first_counts_for_all),
        CASE(old_transactions_do_not_count),
        CASE(number_of_transactions_is_limited),
        CASE(dropped_transactions_count_for_all),
        CASE(dropped_transactions_count_by_age),
        CASE(dropped_transaction_that_still_runs_counts),
        CASE(earlier_transactions_count_for_all),
        CASE(all_transactions_count_after_ids_are_cleared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
