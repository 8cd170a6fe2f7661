/* test_feed_confirm.c: the slot is confirmed only up to what the store has synced to disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed/feed_private.h"
#include "store/shards/shard.h"

#define LONG_AGO_US 3000000

static struct shard fast = {.syncs_always = true};
static struct shard slow = {.syncs_always = false};

static void
test_appendfsync_always_confirms_immediately(void **state)
{
    struct store store = {.shards = &fast, .shard_count = 1};
    struct feed feed = {.store = &store, .confirm.stored_lsn = 100};

    (void)state;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, 100);
}

static void
test_appendfsync_everysec_confirms_after_the_sync(void **state)
{
    struct store store = {.shards = &slow, .shard_count = 1};
    struct feed feed = {.store = &store, .confirm.stored_lsn = 100};

    (void)state;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, 0);
    assert_int_equal(feed.confirm.mark_count, 1);

    feed.confirm.stored_lsn = 200;
    feed.confirm.marks[0].at_us -= LONG_AGO_US;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, 100); /* stored_lsn at the time of the mark */

    feed.confirm.marks[feed.confirm.mark_first].at_us -= LONG_AGO_US;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, 200);
    assert_int_equal(feed.confirm.mark_count, 0);
}

static void
test_number_of_marks_is_limited(void **state)
{
    struct store store = {.shards = &slow, .shard_count = 1};
    struct feed feed = {.store = &store};

    (void)state;
    for (uint64_t lsn = 1; lsn <= 2 * FEED_MARKS_MAX; lsn++) {
        feed.confirm.stored_lsn = lsn;
        feed_confirm_update(&feed);
    }
    assert_int_equal(feed.confirm.mark_count, FEED_MARKS_MAX);
    for (unsigned i = 0; i < FEED_MARKS_MAX; i++)
        feed.confirm.marks[i].at_us -= LONG_AGO_US;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, FEED_MARKS_MAX);
    feed.confirm.marks[feed.confirm.mark_first].at_us -= LONG_AGO_US;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, 2 * FEED_MARKS_MAX);
}

static void
test_min_replicas_limits_the_confirmed_lsn(void **state)
{
    struct store store = {.shards = &fast, .shard_count = 1, .min_replicas = 1};
    struct feed feed = {.store = &store, .confirm.stored_lsn = 200, .confirm.replicated_lsn = 100};

    (void)state;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, 100);
    feed.confirm.replicated_lsn = 300;
    feed_confirm_update(&feed);
    assert_int_equal(feed.confirm.confirmed_lsn, 200); /* limited by stored_lsn */
}

static void
test_online_replicas_are_counted(void **state)
{
    const char *info = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\n"
                       "slave0:ip=1,port=1,state=online,offset=500,lag=0\r\n"
                       "slave1:ip=1,port=2,state=wait_bgsave,offset=900,lag=0\r\n"
                       "slave2:ip=1,port=3,state=online,offset=400,lag=1\r\n"
                       "master_replid:00\r\nmaster_repl_offset:500\r\nsecond_repl_offset:-1\r\n";

    (void)state;
    assert_int_equal(replicas_end(info), 500);
    assert_int_equal(replicas_beyond(info, 500), 1);
    assert_int_equal(replicas_beyond(info, 400), 2);
    assert_int_equal(replicas_beyond(info, 501), 0); /* slave1 is not online */
    assert_int_equal(replicas_end("# Replication\r\n"), REPLICAS_OFFSET_NONE);
    assert_int_equal(replicas_beyond("\nslave0:", 0), 0);
}

static uint64_t
read_lsn(struct feed *feed, uint64_t wal_end, bool reply_requested)
{
    struct walmsg keepalive = {
        .kind = WALMSG_KEEPALIVE, .wal_end = wal_end, .reply_requested = reply_requested};

    return feed_confirm_read_lsn(feed, &keepalive);
}

static void
test_keepalive_without_reply_request_covers_wal_end(void **state)
{
    struct feed feed = {0};

    (void)state;
    assert_int_equal(read_lsn(&feed, 1000, false), 1000);
    assert_int_equal(read_lsn(&feed, 1100, false), 1100);
}

static void
test_keepalive_with_reply_request_lags_one_page(void **state)
{
    const uint64_t page = 64 * 1024;
    struct feed feed = {0};

    (void)state;
    assert_int_equal(read_lsn(&feed, page + 10, true), 0);
    assert_int_equal(read_lsn(&feed, page + 20, true), 0); /* same page */
    assert_int_equal(read_lsn(&feed, page + 20, true),
                     page + 20); /* no WAL read since the last keepalive */
    assert_int_equal(read_lsn(&feed, 2 * page + 10, true), page + 20);
    assert_int_equal(read_lsn(&feed, 4 * page, true), 2 * page + 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appendfsync_always_confirms_immediately),
        cmocka_unit_test(test_appendfsync_everysec_confirms_after_the_sync),
        cmocka_unit_test(test_number_of_marks_is_limited),
        cmocka_unit_test(test_min_replicas_limits_the_confirmed_lsn),
        cmocka_unit_test(test_online_replicas_are_counted),
        cmocka_unit_test(test_keepalive_without_reply_request_covers_wal_end),
        cmocka_unit_test(test_keepalive_with_reply_request_lags_one_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
