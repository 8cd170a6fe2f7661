/* test_stats.c: can Prometheus read what the counters write? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/stats.h"

static void
writes_every_value_with_its_kind(void **state)
{
    struct stats stats = {.values = {0}};
    struct buffer out;
    int lines = 0;

    (void)state;
    stats_add(&stats, STAT_FEED_FRAMES, 2);
    stats_add(&stats, STAT_FEED_FRAMES, 3);
    stats_set(&stats, STAT_FEED_RECEIVED_LSN, UINT64_MAX);
    buffer_init(&out, 65536);
    assert_int_equal(stats_write(&stats, &out), RC_OK);
    assert_non_null(strstr(out.bytes, "# HELP clairon_feed_frames_total Frames received from the "
                                      "slot\n"
                                      "# TYPE clairon_feed_frames_total counter\n"
                                      "clairon_feed_frames_total 5\n"));
    assert_non_null(strstr(out.bytes, "# TYPE clairon_feed_received_lsn_bytes gauge\n"
                                      "clairon_feed_received_lsn_bytes 18446744073709551615\n"));
    for (const char *at = out.bytes; *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 3 * STAT_COUNT);
    buffer_free(&out);
}

static void
says_when_it_does_not_fit(void **state)
{
    struct stats stats = {.values = {0}};
    struct buffer out;

    (void)state;
    buffer_init(&out, 500);
    assert_int_equal(stats_write(&stats, &out), RC_LIMIT);
    buffer_free(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_every_value_with_its_kind),
        cmocka_unit_test(says_when_it_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
