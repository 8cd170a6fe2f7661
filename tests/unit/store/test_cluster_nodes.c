/* test_cluster_nodes.c: primaries and moves are read from all forms of CLUSTER NODES. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/servers/cluster_nodes.h"

static struct cluster_primary
assert_next(struct cluster_nodes *nodes, const char *host, int port)
{
    struct cluster_primary primary;

    assert_true(cluster_nodes_next_primary(nodes, &primary));
    assert_string_equal(primary.node.host, host);
    assert_int_equal(primary.node.port, port);
    return primary;
}

static void
assert_end(struct cluster_nodes *nodes)
{
    struct cluster_primary primary;

    assert_false(cluster_nodes_next_primary(nodes, &primary));
}

static void
test_other_primaries_are_read(void **state)
{
    struct cluster_nodes nodes =
        cluster_nodes_begin("a 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99 [93->-b]\n"
                            "b 10.0.0.2:6379@16379 myself,master - 0 0 2 connected 100-199\n"
                            "c 10.0.0.3:6379@16379 slave a 0 0 1 connected\n"
                            "d fd00::4:6380@16380 master,fail? - 0 0 0 connected\n"
                            "e 10.0.0.5:6379 master - 0 0 0 disconnected",
                            "10.0.0.2");

    (void)state;
    assert_next(&nodes, "10.0.0.1", 6379);
    assert_next(&nodes, "fd00::4", 6380);
    assert_next(&nodes, "10.0.0.5", 6379);
    assert_end(&nodes);
    assert_end(&nodes);
}

static void
test_failed_primaries_and_slots_are_read(void **state)
{
    struct cluster_nodes nodes =
        cluster_nodes_begin("a 10.0.0.1:6379@16379 master,fail - 0 0 1 disconnected 0-99 200\n"
                            "b 10.0.0.2:6379@16379 handshake - 0 0 0 connected\n"
                            "c :0@0 master,noaddr - 0 0 0 disconnected\n"
                            "d 10.0.0.4:6379@16379 master,fail? - 0 0 1 connected\n"
                            "e 10.0.0.5:6379@16379 myself,master - 0 0 1 connected 100-150\n"
                            "f 10.0.0.6:6379@16379 master - 0 0 1 connected [93-<-a]\n"
                            "g 10.0.0.7:6379@16379 master - 0 0 1 connected 151",
                            "10.0.0.5");
    const struct cluster_primary failed = assert_next(&nodes, "10.0.0.1", 6379);
    const struct cluster_primary moved = assert_next(&nodes, "", 0);
    const struct cluster_primary suspected = assert_next(&nodes, "10.0.0.4", 6379);
    const struct cluster_primary importing = assert_next(&nodes, "10.0.0.6", 6379);
    const struct cluster_primary last = assert_next(&nodes, "10.0.0.7", 6379);

    (void)state;
    assert_true(failed.is_failed && failed.has_slots);
    assert_string_equal(failed.id, "a");
    assert_true(moved.is_failed);
    assert_string_equal(moved.id, "c");
    assert_false(suspected.is_failed || suspected.has_slots);
    assert_false(importing.is_failed || importing.has_slots);
    assert_true(!last.is_failed && last.has_slots);
    assert_string_equal(last.id, "g");
    assert_end(&nodes);
}

static void
test_the_target_of_a_moving_slot_is_read(void **state)
{
    const char *text = "a 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99\n"
                       "b 10.0.0.2:6379@16379 myself,master - 0 0 2 connected 100-199 [93-<-a] "
                       "[193->-c] [112->-a]\n";
    char id[CLUSTER_ID_MAX];

    (void)state;
    assert_true(cluster_nodes_target(text, 193, id));
    assert_string_equal(id, "c");
    assert_true(cluster_nodes_target(text, 112, id));
    assert_string_equal(id, "a");
    assert_false(cluster_nodes_target(text, 93, id));
    assert_false(cluster_nodes_target(text, 12, id));
    assert_false(cluster_nodes_target(text, 1, id));
}

static void
test_the_slots_of_the_node_that_replied_are_read(void **state)
{
    (void)state;
    assert_true(cluster_nodes_is_slotless("a 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99\n"
                                          "b :6379@16379 myself,master - 0 0 2 connected\n"
                                          "c 10.0.0.3:6379@16379 master - 0 0 3 connected 100"));
    assert_true(cluster_nodes_is_slotless("b :0@0 myself,master - 0 0 2 connected [93-<-a]"));
    assert_false(cluster_nodes_is_slotless("a :0@0 master - 0 0 1 connected\n"
                                           "b :0@0 myself,master - 0 0 2 connected 93\n"));
    assert_false(cluster_nodes_is_slotless("b :0@0 myself,slave a 0 0 2 connected\n"));
    assert_false(cluster_nodes_is_slotless("b :0@0 master - 0 0 2 connected"));
    assert_false(cluster_nodes_is_slotless(""));
}

static void
test_host_names_are_used_if_the_relay_uses_them(void **state)
{
    const char *text = "a 10.0.0.1:6379@16379,one.example,shard-id=x master - 0 0 1 connected\n"
                       "b 10.0.0.2:6379@16379,two.example myself,master - 0 0 2 connected\n"
                       "c 10.0.0.3:6379@16379 master - 0 0 2 connected\n";
    struct cluster_nodes by_name = cluster_nodes_begin(text, "two.example");
    struct cluster_nodes by_address = cluster_nodes_begin(text, "10.0.0.2");

    (void)state;
    assert_next(&by_name, "one.example", 6379);
    assert_next(&by_name, "10.0.0.3", 6379);
    assert_end(&by_name);
    assert_next(&by_address, "10.0.0.1", 6379);
    assert_next(&by_address, "10.0.0.3", 6379);
    assert_end(&by_address);
}

static void
test_invalid_lines_are_skipped(void **state)
{
    struct cluster_nodes nodes = cluster_nodes_begin("\n"
                                                     "a\n"
                                                     "b 10.0.0.2\n"
                                                     "c  master\n"
                                                     "d :6379@16379 master\n"
                                                     "e nocolon master -\n"
                                                     "f 10.0.0.6:6379@16379 master",
                                                     "");

    (void)state;
    assert_next(&nodes, "10.0.0.6", 6379);
    assert_end(&nodes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_primaries_are_read),
        cmocka_unit_test(test_failed_primaries_and_slots_are_read),
        cmocka_unit_test(test_the_target_of_a_moving_slot_is_read),
        cmocka_unit_test(test_the_slots_of_the_node_that_replied_are_read),
        cmocka_unit_test(test_host_names_are_used_if_the_relay_uses_them),
        cmocka_unit_test(test_invalid_lines_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
