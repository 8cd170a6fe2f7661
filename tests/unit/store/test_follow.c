/* test_follow.c: a newly read shard is merged with shard 0, or after a timeout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "store/read/reader_private.h"
#include "tests/unit/store/entries.h"

#define SECONDS INT64_C(1000000)

static unsigned followed;
static uint64_t early_lsn;

static void
on_followed(void *ctx, const struct reader_followed *begin)
{
    (void)ctx;
    assert_int_equal(begin->shard, 1);
    followed++;
    early_lsn = begin->early_lsn;
}

static void
ignore_entry(void *ctx, const struct entry *entry)
{
    (void)ctx;
    (void)entry;
}

static void
add(struct reader *reader, unsigned shard, uint64_t of_lsn, const char *after)
{
    redisReply *reply = array(1);

    reply->element[0] = make_entry((unsigned)of_lsn, of_lsn, after, false);
    order_add(reader->order, shard, reply);
    order_release(reader->order, 1);
    drop(reply);
}

/* A reader starts to read shard 1. Its newest entry follows an unread entry of shard 0. */
static void
merge(struct reader *reader, int64_t since_us)
{
    const struct position stored[3] = {{0, 0}};
    const bool has_changed[3] = {false};

    followed = 0;
    *reader = (struct reader){.events = {.on_followed = on_followed},
                              .has_start = true,
                              .order = order_new(3, ignore_entry, NULL, NULL),
                              .connection_count = 3};
    order_begin(reader->order, stored, has_changed);
    order_leave(reader->order, 1);
    order_join(reader->order, 1, (struct position){11, 1}, (struct position){10, 1});
    for (unsigned k = 0; k < 3; k++)
        reader->connections[k] =
            (struct reader_connection){.reader = reader, .number = k, .follow = FOLLOW_DONE};
    reader->connections[1].follow = FOLLOW_MERGING;
    reader->connections[1].merging_us = clock_monotonic_us() - since_us;
    reader->connections[1].begin.shard = 1;
}

static void
test_merge_ends_with_the_missing_entry(void **state)
{
    struct reader reader;

    (void)state;
    merge(&reader, 0);
    follow_advance(&reader);
    assert_true(follow_waits(&reader));
    add(&reader, 0, 10, "");
    follow_advance(&reader);
    assert_false(follow_waits(&reader));
    assert_int_equal(followed, 1);
    assert_int_equal(early_lsn, 0);
    order_free(reader.order);
}

static void
test_merge_times_out(void **state)
{
    struct reader reader;

    (void)state;
    merge(&reader, 3 * SECONDS);
    add(&reader, 2, 12, "");
    follow_advance(&reader);
    assert_int_equal(followed, 1);
    assert_int_equal(early_lsn, 12);
    order_free(reader.order);
}

/* The missing entry was read, but waits for an entry of a third shard. */
static void
test_merge_lasts_as_long_as_the_wait_for_another_shard(void **state)
{
    struct reader reader;

    (void)state;
    merge(&reader, 5 * SECONDS);
    add(&reader, 0, 10, "2:9.1");
    assert_true(order_waits(reader.order));
    follow_advance(&reader);
    assert_true(follow_waits(&reader));
    add(&reader, 2, 9, "");
    follow_advance(&reader);
    assert_int_equal(followed, 1);
    order_free(reader.order);

    merge(&reader, 7 * SECONDS);
    add(&reader, 0, 10, "2:9.1");
    follow_advance(&reader);
    assert_int_equal(followed, 1);
    order_free(reader.order);
}

/* Another shard was emptied. */
static void
test_merge_continues_in_another_epoch(void **state)
{
    const struct position stored[3] = {{0, 0}};
    const bool has_changed[3] = {false, false, true};
    struct reader reader;

    (void)state;
    merge(&reader, 0);
    order_begin(reader.order, stored, has_changed);
    follow_seek(&reader.connections[1]);
    follow_advance(&reader);
    assert_true(follow_waits(&reader));
    order_free(reader.order);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge_ends_with_the_missing_entry),
        cmocka_unit_test(test_merge_times_out),
        cmocka_unit_test(test_merge_lasts_as_long_as_the_wait_for_another_shard),
        cmocka_unit_test(test_merge_continues_in_another_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
