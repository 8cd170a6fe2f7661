/*
 * test_feed_stream.c: if the store connection is lost during a message with frames, all its frames
 * are discarded. A frame that does not follow the previous frame restarts the feed. WAL without
 * notifications is recorded soon after it was read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "decoder/protocol/frame_format.h"
#include "feed/feed_private.h"
#include "store/shards/shard.h"

/* A feed that streams into a store which is not available. */
struct fixture {
    struct shard shard;
    struct store store;
    struct config config;
    struct stats stats;
    struct feed_report report;
    struct feed feed;
};

static int
set_up(void **state)
{
    struct fixture *fixture = memory_new(sizeof(*fixture));

    fixture->store = (struct store){.shards = &fixture->shard, .shard_count = 1};
    fixture->report.availability = FEED_AVAILABLE;
    fixture->feed = (struct feed){.state = FEED_STREAMING,
                                  .loop = ev_loop_new(EVFLAG_AUTO),
                                  .config = &fixture->config,
                                  .store = &fixture->store,
                                  .stats = &fixture->stats,
                                  .report = &fixture->report};
    feed_batch_reset(&fixture->feed.batch, &fixture->store);
    *state = fixture;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fixture = *state;

    feed_batch_release(&fixture->feed.batch);
    store_batch_free(fixture->feed.batch.frames);
    free(fixture->feed.batch.held);
    ev_loop_destroy(fixture->feed.loop);
    free(fixture);
    return 0;
}

static void
write_commit(unsigned char *frame, uint64_t lsn)
{
    bytes_put_u32(frame + FRAME_AT_LENGTH, FRAME_COMMIT_SIZE);
    frame[FRAME_AT_KIND] = FRAME_KIND_COMMIT;
    frame[FRAME_AT_VERSION] = FRAME_VERSION;
    bytes_put_u64(frame + FRAME_AT_COMMIT_LSN, lsn);
    bytes_put_u64(frame + FRAME_AT_ORDINAL, FRAME_ORDINAL_COMMIT);
}

/* Returns the result of feed_stream_receive. */
static bool
receive_reload(struct feed *feed, uint64_t lsn, uint64_t ordinal)
{
    const size_t len = FRAME_RELOAD_HEAD_SIZE + 2;
    unsigned char *frame = memory_new(len);

    bytes_put_u32(frame + FRAME_AT_LENGTH, (uint32_t)len);
    frame[FRAME_AT_KIND] = FRAME_KIND_RELOAD;
    frame[FRAME_AT_VERSION] = FRAME_VERSION;
    bytes_put_u64(frame + FRAME_AT_COMMIT_LSN, lsn);
    bytes_put_u64(frame + FRAME_AT_ORDINAL, ordinal);
    bytes_put_u16(frame + FRAME_RELOAD_AT_SOURCE_LEN, 1);
    bytes_put_u16(frame + FRAME_RELOAD_AT_RULE_LEN, 1);
    frame[FRAME_RELOAD_HEAD_SIZE] = 's';
    frame[FRAME_RELOAD_HEAD_SIZE + 1] = 'r';
    return feed_stream_receive(feed, (char *)frame, (struct bytes){frame, len});
}

static void
test_store_loss_drops_the_other_frames_of_the_message(void **state)
{
    const size_t count = STORE_BATCH_FRAMES_MAX + 1; /* a batch is sent before the message ends */
    const size_t len = count * FRAME_COMMIT_SIZE;
    unsigned char *packet = memory_new(len);
    struct fixture *fixture = *state;

    for (size_t i = 0; i < count; i++)
        write_commit(packet + i * FRAME_COMMIT_SIZE, i + 1);
    assert_false(feed_stream_receive(&fixture->feed, (char *)packet, (struct bytes){packet, len}));
    assert_int_equal(fixture->feed.state, FEED_WAITING);
    assert_int_equal(fixture->report.availability, FEED_DOWN);
    assert_int_equal(store_batch_count(fixture->feed.batch.frames),
                     0); /* frames would point into freed memory */
}

/* The store is not available, so that the feed restarts when it records the WAL. */
static void
test_wal_without_notifications_does_not_wait_for_the_feedback_timer(void **state)
{
    struct fixture *fixture = *state;
    struct feed *feed = &fixture->feed;

    ev_timer_init(&feed->feedback.idle, feed_on_idle, 0.0, 0.0);
    feed->feedback.idle.data = feed;
    feed->flights.bytes = SIZE_MAX; /* nothing is read from the connection */
    feed->confirm.idle_us = clock_monotonic_us();
    feed->confirm.sent_lsn = feed->confirm.idle_lsn = 8;
    feed_stream_pump(feed);
    assert_false(ev_run(feed->loop, EVRUN_ONCE)); /* there is nothing to record */
    feed->confirm.idle_lsn = 9;
    feed_stream_pump(feed);
    assert_int_equal(feed->state, FEED_STREAMING); /* the last record is recent */
    ev_run(feed->loop, EVRUN_ONCE);
    assert_int_equal(feed->state, FEED_WAITING);
}

static void
test_positions_ascend(void **state)
{
    struct feed *feed = &((struct fixture *)*state)->feed;

    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(1, 3)));
    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(1, 4)));
    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(2, 0)));
    assert_true(receive_reload(feed, 9, FRAME_ORDINAL(1, 0)));
    assert_int_equal(store_batch_count(feed->batch.frames), 4);
}

static void
test_frame_before_the_previous_frame_is_not_stored(void **state)
{
    struct feed *feed = &((struct fixture *)*state)->feed;

    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(1, 3)));
    assert_false(receive_reload(feed, 8, FRAME_ORDINAL(1, 1)));
    assert_int_equal(feed->state, FEED_WAITING);
    assert_int_equal(store_batch_count(feed->batch.frames), 0);
}

static void
test_frame_with_the_position_of_the_previous_frame_is_not_stored(void **state)
{
    struct feed *feed = &((struct fixture *)*state)->feed;

    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(1, 3)));
    assert_false(receive_reload(feed, 8, FRAME_ORDINAL(1, 3)));
    assert_int_equal(feed->state, FEED_WAITING);
}

/* Otherwise the frame would count as stored after a restart, because the previous frame is. */
static void
test_frame_before_a_stored_frame_does_not_count_as_stored(void **state)
{
    struct feed *feed = &((struct fixture *)*state)->feed;

    feed->slot.acquired_lsn = 8;
    feed->slot.acquired_ordinal = FRAME_ORDINAL(1, 3);
    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(1, 3)));
    assert_false(receive_reload(feed, 8, FRAME_ORDINAL(1, 1)));
    assert_int_equal(feed->state, FEED_WAITING);
    assert_int_equal(feed->stats->values[STAT_STORE_REPLAYED], 1);
}

static void
test_next_connection_repeats_frames(void **state)
{
    struct feed *feed = &((struct fixture *)*state)->feed;

    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(1, 3)));
    assert_false(receive_reload(feed, 8, FRAME_ORDINAL(1, 1)));
    feed->state = FEED_STREAMING;
    assert_true(receive_reload(feed, 8, FRAME_ORDINAL(1, 0)));
    assert_int_equal(store_batch_count(feed->batch.frames), 1);
}

#define WITH_FEED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FEED(test_store_loss_drops_the_other_frames_of_the_message),
        WITH_FEED(test_wal_without_notifications_does_not_wait_for_the_feedback_timer),
        WITH_FEED(test_positions_ascend),
        WITH_FEED(test_frame_before_the_previous_frame_is_not_stored),
        WITH_FEED(test_frame_with_the_position_of_the_previous_frame_is_not_stored),
        WITH_FEED(test_frame_before_a_stored_frame_does_not_count_as_stored),
        WITH_FEED(test_next_connection_repeats_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
