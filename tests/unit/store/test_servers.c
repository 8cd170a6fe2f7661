/*
 * test_servers.c: replies of clusters and sentinels name the servers; outdated replies are ignored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/clock.h"
#include "replies.h"
#include "store/servers/servers_private.h"
#include "store/timeouts.h"

static struct servers servers;

static void
begin(unsigned shards, size_t seeds)
{
    memset(&servers, 0, sizeof(servers));
    servers.shard_count = shards;
    servers.seed_count = servers.node_count = seeds;
    for (size_t i = 0; i < seeds; i++) {
        (void)snprintf(servers.seeds[i].host, SLOTS_HOST_MAX, "seed%zu", i);
        servers.seeds[i].port = 7000;
        servers.nodes[i] = servers.seeds[i];
    }
}

/* Reads a reply of this kind and, if it is valid, adopts its servers, as servers.c does. */
static enum rc
read_with(const struct servers_kind *kind, redisReply *reply)
{
    enum rc rc;

    memcpy(servers.found, servers.shards, sizeof(servers.found));
    rc = kind->read(&servers, reply);
    if (rc == RC_OK)
        memcpy(servers.shards, servers.found, sizeof(servers.shards));
    drop(reply);
    return rc;
}

static redisReply *
primary_with(const char *host, const char *port, const char *epoch, const char *flags)
{
    const char *const fields[] = {"name", "main",         "ip",  host,    "port",
                                  port,   "config-epoch", epoch, "flags", flags};
    const size_t count = sizeof(fields) / sizeof(fields[0]);
    redisReply *reply = array(count);

    for (size_t i = 0; i < count; i++)
        reply->element[i] = text(fields[i], strlen(fields[i]));
    return reply;
}

static redisReply *
primary(const char *host, const char *port, const char *epoch)
{
    return primary_with(host, port, epoch, "master");
}

/* Reads the reply of this sentinel. */
static enum rc
read_from(size_t sentinel, redisReply *reply)
{
    servers.at = sentinel;
    return read_with(&servers_sentinel, reply);
}

static void
assert_server(unsigned shard, const char *host, int port)
{
    assert_true(servers.shards[shard].is_known);
    assert_string_equal(servers.shards[shard].server.host, host);
    assert_int_equal(servers.shards[shard].server.port, port);
}

static void
test_slots_name_the_server_of_each_shard(void **state)
{
    redisReply *reply = array(2);

    (void)state;
    begin(3, 2);
    servers.shards[1].slot = 100;
    servers.shards[2].slot = 9000;
    reply->element[0] = range(0, 99, node("", 7001, NULL), node("b", 7002, NULL));
    reply->element[1] = range(100, 200, node("c", 7003, NULL), NULL);
    assert_int_equal(read_with(&servers_cluster, reply), RC_OK);
    assert_server(0, "seed0", 7001);
    assert_server(1, "c", 7003);
    assert_false(servers.shards[2].is_known);
    /* All nodes are queried in turn, the seeds last. */
    assert_int_equal(servers.node_count, 5);
    assert_string_equal(servers.nodes[1].host, "b");
    assert_string_equal(servers.nodes[4].host, "seed1");
    assert_int_equal(servers.at, 3);
}

static void
test_slot_without_a_primary_keeps_its_server(void **state)
{
    redisReply *reply = array(1);

    (void)state;
    begin(1, 1);
    reply->element[0] = range(0, 99, node("a", 7001, NULL), NULL);
    assert_int_equal(read_with(&servers_cluster, reply), RC_OK);
    reply = array(1);
    reply->element[0] = range(1, 99, node("b", 7002, NULL), NULL);
    assert_int_equal(read_with(&servers_cluster, reply), RC_OK);
    assert_server(0, "a", 7001);
    assert_int_equal(read_with(&servers_cluster, array(0)), RC_BAD);
}

static void
test_primary_of_an_older_epoch_is_ignored(void **state)
{
    (void)state;
    begin(2, 3);
    assert_int_equal(read_from(0, primary("a", "7001", "4")), RC_OK);
    assert_int_equal(read_from(1, primary("b", "7002", "5")), RC_OK);
    assert_server(0, "b", 7002);
    assert_server(1, "b", 7002);
    for (int i = 0; i < 6; i++) { /* the other sentinels are dead */
        assert_int_equal(read_from(0, primary("a", "7001", "4")), RC_AGAIN);
        assert_server(0, "b", 7002);
    }
}

/* The leading sentinel reports the former primary with the epoch of the new primary. */
static void
test_primary_is_ignored_during_a_failover(void **state)
{
    static const char flags[] = "master,failover_in_progress";

    (void)state;
    begin(1, 3);
    assert_int_equal(read_with(&servers_sentinel, primary("a", "7001", "4")), RC_OK);
    assert_int_equal(read_with(&servers_sentinel, primary("b", "7002", "5")), RC_OK);
    assert_int_equal(read_with(&servers_sentinel, primary_with("a", "7001", "5", flags)), RC_AGAIN);
    assert_server(0, "b", 7002);
}

static void
test_lower_epoch_of_a_majority_is_accepted(void **state)
{
    (void)state;
    begin(1, 3);
    assert_int_equal(read_from(0, primary("a", "7001", "7")), RC_OK);
    assert_int_equal(read_from(0, primary("b", "7002", "0")), RC_AGAIN);
    assert_server(0, "a", 7001);
    assert_int_equal(read_from(2, primary("b", "7002", "0")), RC_OK); /* one stays dead */
    assert_server(0, "b", 7002);
    assert_int_equal(read_from(0, primary("c", "7003", "1")), RC_OK);
    assert_server(0, "c", 7003);
    assert_int_equal(read_from(0, primary("b", "7002", "0")), RC_AGAIN);
    assert_server(0, "c", 7003);
}

static void
test_half_of_the_sentinels_is_no_majority(void **state)
{
    (void)state;
    begin(1, SERVERS_NODES_MAX);
    assert_int_equal(read_from(0, primary("a", "7001", "7")), RC_OK);
    for (size_t i = SERVERS_NODES_MAX / 2; i < SERVERS_NODES_MAX; i++)
        assert_int_equal(read_from(i, primary("b", "7002", "0")), RC_AGAIN);
    assert_server(0, "a", 7001);
    assert_int_equal(read_from(0, primary("b", "7002", "0")), RC_OK);
    assert_server(0, "b", 7002);
}

/* At the start the primary may be down. */
static void
test_lower_epoch_of_a_primary_that_is_down_is_ignored(void **state)
{
    (void)state;
    begin(1, 3);
    assert_int_equal(read_from(0, primary_with("a", "7001", "7", "s_down,master")), RC_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(read_from(i, primary_with("b", "7002", "6", "s_down,o_down,master")),
                         RC_AGAIN);
    assert_server(0, "a", 7001);
    assert_int_equal(read_from(0, primary("b", "7002", "6")), RC_OK);
    assert_server(0, "b", 7002);
}

static void
test_reply_of_the_current_epoch_resets_the_majority(void **state)
{
    static const char *const epochs[] = {"7", "8"};

    (void)state;
    begin(1, 5);
    assert_int_equal(read_from(0, primary("a", "7001", "7")), RC_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(read_from(0, primary("b", "7002", "6")), RC_AGAIN);
        assert_int_equal(read_from(1, primary("b", "7002", "6")), RC_AGAIN);
        assert_int_equal(read_from(2, primary("a", "7001", epochs[i])), RC_OK);
        assert_int_equal(read_from(3, primary("b", "7002", "6")), RC_AGAIN);
        assert_int_equal(read_from(4, primary("b", "7002", "6")), RC_AGAIN);
        assert_int_equal(read_from(2, primary("a", "7001", epochs[i])), RC_OK);
    }
    assert_server(0, "a", 7001);
}

/* The seed may be the name of a service with several sentinels. */
static void
test_lower_epoch_of_a_single_seed_is_accepted(void **state)
{
    (void)state;
    begin(1, 1);
    assert_int_equal(read_from(0, primary("a", "7001", "7")), RC_OK);
    assert_int_equal(read_from(0, primary("b", "7002", "0")), RC_OK);
    assert_server(0, "b", 7002);
}

static void
test_invalid_replies_are_rejected(void **state)
{
    (void)state;
    begin(1, 1);
    assert_int_equal(read_with(&servers_sentinel, primary("", "7001", "1")), RC_BAD);
    assert_int_equal(read_with(&servers_sentinel, primary("a", "0", "1")), RC_BAD);
    assert_int_equal(read_with(&servers_sentinel, primary("a", "70000", "1")), RC_BAD);
    assert_int_equal(read_with(&servers_sentinel, array(0)), RC_BAD);
    assert_int_equal(read_with(&servers_sentinel, text("a", 1)), RC_BAD);
    assert_int_equal(read_with(&servers_cluster, text("a", 1)), RC_BAD);
    assert_false(servers.shards[0].is_known);
}

/* A query fails when its reply is late, which is no reason to end. */
static void
test_failures_must_last_unless_they_are_permanent(void **state)
{
    (void)state;
    begin(1, 2);
    servers.kind = &servers_cluster;
    servers.failed_us = clock_monotonic_us();
    servers.failures = 2;
    (void)snprintf(servers.failure, sizeof(servers.failure), "reply timed out");
    assert_null(servers_failure(&servers));
    servers.failed_us -= SERVERS_FAILED_US;
    assert_non_null(servers_failure(&servers));
    servers.failures = 1;
    assert_null(servers_failure(&servers)); /* the other node was not queried yet */

    servers.failed_us = clock_monotonic_us();
    servers.failures = 2;
    (void)snprintf(servers.failure, sizeof(servers.failure), "LOADING Redis is loading");
    assert_null(servers_failure(&servers));
    (void)snprintf(servers.failure, sizeof(servers.failure), "WRONGPASS invalid password");
    assert_non_null(servers_failure(&servers));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_name_the_server_of_each_shard),
        cmocka_unit_test(test_slot_without_a_primary_keeps_its_server),
        cmocka_unit_test(test_primary_of_an_older_epoch_is_ignored),
        cmocka_unit_test(test_primary_is_ignored_during_a_failover),
        cmocka_unit_test(test_lower_epoch_of_a_majority_is_accepted),
        cmocka_unit_test(test_half_of_the_sentinels_is_no_majority),
        cmocka_unit_test(test_lower_epoch_of_a_primary_that_is_down_is_ignored),
        cmocka_unit_test(test_reply_of_the_current_epoch_resets_the_majority),
        cmocka_unit_test(test_lower_epoch_of_a_single_seed_is_accepted),
        cmocka_unit_test(test_invalid_replies_are_rejected),
        cmocka_unit_test(test_failures_must_last_unless_they_are_permanent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
