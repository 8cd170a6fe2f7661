/* test_stats.c: metrics of all workers are aggregated, in the Prometheus text format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/stats.h"

static void
every_metric_has_help_and_type(void **state)
{
    struct stats stats = {.values = {0}};
    struct buffer out;
    int samples = 0;

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
    assert_non_null(strstr(out.bytes, "# TYPE clairon_shed_total counter\n"
                                      "clairon_shed_total{class=\"low\"} 0\n"
                                      "clairon_shed_total{class=\"normal\"} 0\n# HELP"));
    for (const char *at = out.bytes; *at != '\0'; at = strchr(at, '\n') + 1)
        samples += *at != '#';
    assert_int_equal(samples, 1 + STAT_COUNT + TIME_COUNT * ((HISTOGRAM_STEP_COUNT) + 3));
    buffer_free(&out);
}

static void
durations_are_in_seconds(void **state)
{
    struct stats stats = {.values = {0}};
    struct buffer out;

    (void)state;
    stats_set(&stats, STAT_FEED_LAG, 12000345);
    stats_set(&stats, STAT_SINK_SQL_OLDEST, 1500000);
    stats_set(&stats, STAT_SINK_SQL_SUCCESS, 1793000000000001);
    buffer_init(&out, 65536);
    assert_int_equal(stats_write(&stats, &out), RC_OK);
    assert_non_null(strstr(out.bytes, "\nclairon_feed_lag_seconds 12.000345\n"));
    assert_non_null(strstr(out.bytes, "\nclairon_sink_oldest_seconds{sink=\"sql\"} 1.500000\n"));
    assert_non_null(strstr(out.bytes, "\nclairon_sink_last_success_timestamp_seconds{sink=\"sql\"} "
                                      "1793000000.000001\n"));
    buffer_free(&out);
}

static void
histogram_buckets_are_cumulative(void **state)
{
    struct stats all[2] = {{.values = {0}}, {.values = {0}}};
    struct buffer out;

    (void)state;
    all[0].all = all;
    all[0].all_count = 2;
    stats_time(&all[0], TIME_SCRIPT_ACK, -5); /* the workers' clocks differ */
    stats_time(&all[0], TIME_SCRIPT_ACK, 500);
    stats_time(&all[1], TIME_SCRIPT_ACK, 501);
    stats_time(&all[1], TIME_SCRIPT_ACK, INT64_C(400000000));
    buffer_init(&out, 65536);
    assert_int_equal(stats_write(&all[0], &out), RC_OK);
    assert_non_null(strstr(out.bytes,
                           "clairon_store_script_seconds_bucket{script=\"ack\",le=\"0.0005\"} 2\n"
                           "clairon_store_script_seconds_bucket{script=\"ack\",le=\"0.001\"} 3\n"));
    assert_non_null(strstr(out.bytes,
                           "clairon_store_script_seconds_bucket{script=\"ack\",le=\"300\"} 3\n"
                           "clairon_store_script_seconds_bucket{script=\"ack\",le=\"+Inf\"} 4\n"
                           "clairon_store_script_seconds_sum{script=\"ack\"} 400.001001\n"
                           "clairon_store_script_seconds_count{script=\"ack\"} 4\n"));
    assert_non_null(strstr(out.bytes, "# TYPE clairon_sent_seconds histogram\n"
                                      "clairon_sent_seconds_bucket{le=\"0.0005\"} 0\n"));
    buffer_free(&out);
}

static void
output_over_the_limit_is_an_error(void **state)
{
    struct stats stats = {.values = {0}};
    struct buffer out;

    (void)state;
    buffer_init(&out, 500);
    assert_int_equal(stats_write(&stats, &out), RC_LIMIT);
    buffer_free(&out);
}

static void
counters_of_all_workers_are_summed(void **state)
{
    struct stats all[2] = {{.values = {0}}, {.values = {0}}};
    struct buffer out;

    (void)state;
    for (int i = 0; i < 2; i++) {
        all[i].all = all;
        all[i].all_count = 2;
        stats_add(&all[i], STAT_HUB_DELIVERED, 5);
        stats_set(&all[i], STAT_GATE_CONNECTIONS, 3);
        stats_set(&all[i], STAT_STORE_CONNECTED, 1);
        stats_set(&all[i], STAT_HUB_QUEUED, 7);
    }
    assert_int_equal(stats_total(&all[0], STAT_HUB_QUEUED), 14);
    assert_int_equal(stats_total(&all[0], STAT_STORE_CONNECTED), 1);
    stats_reset_gauges(&all[1]);
    assert_int_equal(stats_total(&all[0], STAT_STORE_CONNECTED), 0);
    buffer_init(&out, 65536);
    assert_int_equal(stats_write(&all[1], &out), RC_OK);
    assert_non_null(strstr(out.bytes, "\nclairon_hub_delivered_total 10\n"));
    assert_non_null(strstr(out.bytes, "\nclairon_gate_connections 3\n"));
    assert_non_null(strstr(out.bytes, "\nclairon_store_connected 0\n"));
    buffer_free(&out);
}

static void
gauges_report_the_worst_live_worker(void **state)
{
    struct stats all[4] = {{.values = {0}}};

    (void)state;
    for (int i = 0; i < 4; i++) {
        all[i].all = all;
        all[i].all_count = 4;
        stats_set(&all[i], STAT_STORE_CONNECTED, i != 0);
        stats_set(&all[i], STAT_GATE_CERTIFICATE, i == 1 ? 0 : 100 + (uint64_t)i);
        stats_set(&all[i], STAT_FEED_LAG, 10 - (uint64_t)i);
        stats_add(&all[i], STAT_HUB_DELIVERED, 5);
    }
    assert_int_equal(stats_total(&all[1], STAT_STORE_CONNECTED), 0);
    assert_int_equal(stats_total(&all[1], STAT_GATE_CERTIFICATE), 100);
    all[0].is_dead = true;
    assert_int_equal(stats_total(&all[1], STAT_STORE_CONNECTED), 1);
    assert_int_equal(stats_total(&all[1], STAT_GATE_CERTIFICATE), 102);
    assert_int_equal(stats_total(&all[1], STAT_FEED_LAG), 9);
    assert_int_equal(stats_total(&all[1], STAT_HUB_DELIVERED), 20);
    stats_set(&all[3], STAT_STORE_CONNECTED, 0);
    assert_int_equal(stats_total(&all[1], STAT_STORE_CONNECTED), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_has_help_and_type),
        cmocka_unit_test(durations_are_in_seconds),
        cmocka_unit_test(histogram_buckets_are_cumulative),
        cmocka_unit_test(output_over_the_limit_is_an_error),
        cmocka_unit_test(counters_of_all_workers_are_summed),
        cmocka_unit_test(gauges_report_the_worst_live_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
