/* test_cluster_nodes.c: primaries are read from all forms of CLUSTER NODES. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/servers/cluster_nodes.h"

static void
assert_next(struct cluster_nodes *nodes, const char *host, int port)
{
    struct slots_node node;

    assert_true(cluster_nodes_next_primary(nodes, false, &node));
    assert_string_equal(node.host, host);
    assert_int_equal(node.port, port);
}

static void
assert_end(struct cluster_nodes *nodes)
{
    struct slots_node node;

    assert_false(cluster_nodes_next_primary(nodes, false, &node));
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
test_failed_primaries_are_skipped_unless_included(void **state)
{
    const char *text = "a 10.0.0.1:6379@16379 master,fail - 0 0 1 disconnected 0-99\n"
                       "b 10.0.0.2:6379@16379 handshake - 0 0 0 connected\n"
                       "c :0@0 master,noaddr - 0 0 0 disconnected\n"
                       "d 10.0.0.4:6379@16379 myself,master - 0 0 1 connected\n";
    struct cluster_nodes nodes = cluster_nodes_begin(text, "10.0.0.4");

    struct slots_node failed;

    (void)state;
    assert_end(&nodes);
    nodes = cluster_nodes_begin(text, "10.0.0.4");
    assert_true(cluster_nodes_next_primary(&nodes, true, &failed));
    assert_string_equal(failed.host, "10.0.0.1");
    assert_end(&nodes);
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
        cmocka_unit_test(test_failed_primaries_are_skipped_unless_included),
        cmocka_unit_test(test_host_names_are_used_if_the_relay_uses_them),
        cmocka_unit_test(test_invalid_lines_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
