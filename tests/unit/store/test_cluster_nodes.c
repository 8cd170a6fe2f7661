/* test_cluster_nodes.c: primaries and moves are read from all forms of CLUSTER NODES. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/servers/topology.h"

static void
assert_node(const struct cluster_nodes *nodes, size_t at, const char *id, const char *host,
            int port)
{
    assert_true(at < nodes->count);
    assert_string_equal(nodes->others[at].id, id);
    assert_string_equal(nodes->others[at].node.host, host);
    assert_int_equal(nodes->others[at].node.port, port);
}

static void
test_other_primaries_are_read(void **state)
{
    struct cluster_nodes nodes =
        cluster_nodes_read("a 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99 [93->-b]\n"
                           "b 10.0.0.2:6379@16379 myself,master - 0 0 2 connected 100-199\n"
                           "c 10.0.0.3:6379@16379 slave a 0 0 1 connected\n"
                           "d fd00::4:6380@16380 master,fail? - 0 0 0 connected\n"
                           "e 10.0.0.5:6379 master - 0 0 0 disconnected",
                           "10.0.0.2", 93);

    (void)state;
    assert_string_equal(nodes.own_id, "b");
    assert_int_equal(nodes.count, 3);
    assert_node(&nodes, 0, "a", "10.0.0.1", 6379);
    assert_node(&nodes, 1, "d", "fd00::4", 6380);
    assert_node(&nodes, 2, "e", "10.0.0.5", 6379);
    assert_string_equal(nodes.moves_with, ""); /* only the move of another node */
    assert_int_equal(nodes.moves.len, 0);
    cluster_nodes_free(&nodes);
}

static void
test_nodes_and_moves_are_listed(void **state)
{
    static const char text[] =
        "a1 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-99 [93->-b]"
        " [94-<-c]\n"
        "c 10.0.0.3:6379@16379 slave a1 0 0 1 connected\n";
    struct cluster_nodes nodes = cluster_nodes_read(text, "10.0.0.1", 0);

    (void)state;
    assert_int_equal(nodes.moves.len, strlen("[93->-b] [94-<-c]"));
    assert_memory_equal(nodes.moves.at, "[93->-b] [94-<-c]", nodes.moves.len);
    cluster_nodes_free(&nodes);
    assert_true(cluster_nodes_list(text, "a1"));
    assert_true(cluster_nodes_list(text, "c"));
    assert_false(cluster_nodes_list(text, "a"));
    assert_false(cluster_nodes_list(text, "b"));
}

static void
test_failed_primaries_and_slots_are_read(void **state)
{
    struct cluster_nodes nodes =
        cluster_nodes_read("a 10.0.0.1:6379@16379 master,fail - 0 0 1 disconnected 0-99 200\n"
                           "b 10.0.0.2:6379@16379 handshake - 0 0 0 connected\n"
                           "c :0@0 master,noaddr - 0 0 0 disconnected\n"
                           "d 10.0.0.4:6379@16379 master,fail? - 0 0 1 connected\n"
                           "e 10.0.0.5:6379@16379 myself,master - 0 0 1 connected 100-150\n"
                           "f 10.0.0.6:6379@16379 master - 0 0 1 connected [93-<-a]\n"
                           "g 10.0.0.7:6379@16379 master - 0 0 1 connected 151",
                           "10.0.0.5", 0);

    (void)state;
    assert_int_equal(nodes.count, 5);
    assert_node(&nodes, 0, "a", "10.0.0.1", 6379);
    assert_true(nodes.others[0].is_failed && nodes.others[0].has_slots);
    assert_node(&nodes, 1, "c", "", 0); /* its address is unknown */
    assert_true(nodes.others[1].is_failed);
    assert_node(&nodes, 2, "d", "10.0.0.4", 6379);
    assert_false(nodes.others[2].is_failed || nodes.others[2].has_slots);
    assert_node(&nodes, 3, "f", "10.0.0.6", 6379);
    assert_false(nodes.others[3].is_failed || nodes.others[3].has_slots);
    assert_node(&nodes, 4, "g", "10.0.0.7", 6379);
    assert_true(!nodes.others[4].is_failed && nodes.others[4].has_slots);
    cluster_nodes_free(&nodes);
}

static void
assert_moves_with(unsigned slot, const char *expected)
{
    struct cluster_nodes nodes =
        cluster_nodes_read("a 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99\n"
                           "b 10.0.0.2:6379@16379 myself,master - 0 0 2 connected 100-199 [93-<-a] "
                           "[193->-c] [112->-a]\n",
                           "", slot);

    assert_string_equal(nodes.moves_with, expected);
    cluster_nodes_free(&nodes);
}

static void
test_the_other_node_of_a_move_is_read(void **state)
{
    (void)state;
    assert_moves_with(193, "c");
    assert_moves_with(112, "a");
    assert_moves_with(93, "a");
    assert_moves_with(12, "");
    assert_moves_with(1, "");
}

static bool
is_slotless(const char *text)
{
    struct cluster_nodes nodes = cluster_nodes_read(text, "", 0);
    const bool result = nodes.is_slotless;

    cluster_nodes_free(&nodes);
    return result;
}

static void
test_the_slots_of_the_node_that_replied_are_read(void **state)
{
    (void)state;
    assert_true(is_slotless("a 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99\n"
                            "b :6379@16379 myself,master - 0 0 2 connected\n"
                            "c 10.0.0.3:6379@16379 master - 0 0 3 connected 100"));
    assert_true(is_slotless("b :0@0 myself,master - 0 0 2 connected [93-<-a]"));
    assert_false(is_slotless("a :0@0 master - 0 0 1 connected\n"
                             "b :0@0 myself,master - 0 0 2 connected 93\n"));
    assert_false(is_slotless("b :0@0 myself,slave a 0 0 2 connected\n"));
    assert_false(is_slotless("b :0@0 master - 0 0 2 connected"));
    assert_false(is_slotless(""));
}

static void
test_host_names_are_used_if_the_relay_uses_them(void **state)
{
    const char *text = "a 10.0.0.1:6379@16379,one.example,shard-id=x master - 0 0 1 connected\n"
                       "b 10.0.0.2:6379@16379,two.example myself,master - 0 0 2 connected\n"
                       "c 10.0.0.3:6379@16379 master - 0 0 2 connected\n";
    struct cluster_nodes by_name = cluster_nodes_read(text, "two.example", 0);
    struct cluster_nodes by_address = cluster_nodes_read(text, "10.0.0.2", 0);

    (void)state;
    assert_node(&by_name, 0, "a", "one.example", 6379);
    assert_node(&by_name, 1, "c", "10.0.0.3", 6379);
    assert_node(&by_address, 0, "a", "10.0.0.1", 6379);
    assert_node(&by_address, 1, "c", "10.0.0.3", 6379);
    cluster_nodes_free(&by_name);
    cluster_nodes_free(&by_address);
}

static void
test_invalid_lines_are_skipped(void **state)
{
    struct cluster_nodes nodes = cluster_nodes_read("\n"
                                                    "a\n"
                                                    "b 10.0.0.2\n"
                                                    "c  master\n"
                                                    "d :6379@16379 master\n"
                                                    "e nocolon master -\n"
                                                    "f 10.0.0.6:6379@16379 master",
                                                    "", 0);

    (void)state;
    assert_string_equal(nodes.own_id, "");
    assert_int_equal(nodes.count, 1);
    assert_node(&nodes, 0, "f", "10.0.0.6", 6379);
    cluster_nodes_free(&nodes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_primaries_are_read),
        cmocka_unit_test(test_nodes_and_moves_are_listed),
        cmocka_unit_test(test_failed_primaries_and_slots_are_read),
        cmocka_unit_test(test_the_other_node_of_a_move_is_read),
        cmocka_unit_test(test_the_slots_of_the_node_that_replied_are_read),
        cmocka_unit_test(test_host_names_are_used_if_the_relay_uses_them),
        cmocka_unit_test(test_invalid_lines_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
