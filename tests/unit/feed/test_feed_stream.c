/*
 * test_feed_stream.c: if the store connection is lost during a message with frames, all its frames
 * are discarded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "decoder/protocol/frame.h"
#include "feed/feed_parts.h"
#include "feed/feed_stream.h"
#include "store/shards/store_private.h"

static void
write_commit(unsigned char *frame, uint64_t lsn)
{
    bytes_put_u32(frame + FRAME_AT_LENGTH, FRAME_COMMIT_SIZE);
    frame[FRAME_AT_KIND] = FRAME_KIND_COMMIT;
    frame[FRAME_AT_VERSION] = FRAME_VERSION;
    bytes_put_u64(frame + FRAME_AT_COMMIT_LSN, lsn);
    bytes_put_u64(frame + FRAME_AT_ORDINAL, FRAME_ORDINAL_COMMIT);
}

static void
test_store_loss_drops_the_other_frames_of_the_message(void **state)
{
    const size_t count = STORE_BATCH_FRAMES_MAX + 1; /* a batch is sent before the message ends */
    const size_t len = count * FRAME_COMMIT_SIZE;
    unsigned char *packet = memory_new(len);
    struct shard shard = {0};
    struct store store = {.shards = &shard, .shard_count = 1}; /* unavailable */
    struct config config = {.feed.slot = NULL};
    struct stats stats = {.heartbeat_us = 0};
    struct feed_report report = {.availability = FEED_AVAILABLE};
    struct feed feed = {.state = FEED_STREAMING,
                        .loop = ev_loop_new(EVFLAG_AUTO),
                        .config = &config,
                        .store = &store,
                        .stats = &stats,
                        .report = &report};

    (void)state;
    for (size_t i = 0; i < count; i++)
        write_commit(packet + i * FRAME_COMMIT_SIZE, i + 1);
    feed_batch_reset(&feed.batch, &store);
    assert_false(feed_stream_receive(&feed, (char *)packet, (struct bytes){packet, len}));
    assert_int_equal(feed.state, FEED_WAITING);
    assert_int_equal(report.availability, FEED_DOWN);
    assert_int_equal(store_batch_count(feed.batch.frames),
                     0); /* frames would point into freed memory */
    store_batch_free(feed.batch.frames);
    free(feed.batch.held);
    ev_loop_destroy(feed.loop);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_loss_drops_the_other_frames_of_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
