/* test_slots.c: keys have the slots of the Redis specification; invalid replies are tolerated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "replies.h"
#include "store/servers/topology.h"

#define NODES_MAX 8

static void
assert_primary(const redisReply *reply, unsigned slot, const char *host, int port)
{
    struct slots_node found;

    assert_int_equal(slots_primary(reply, slot, "queried", &found), RC_OK);
    assert_string_equal(found.host, host);
    assert_int_equal(found.port, port);
}

/* CLUSTER KEYSLOT returned the expected values. */
static void
test_slot_depends_on_the_string_in_braces(void **state)
{
    (void)state;
    assert_int_equal(slots_of_key("123456789"), 12739);
    assert_int_equal(slots_of_key("foo"), 12182);
    assert_int_equal(slots_of_key("clairon:{foo}:stream"), 12182);
    assert_int_equal(slots_of_key("{foo}{bar}"), 12182);
    assert_int_equal(slots_of_key("clairon:{0}:stream"), slots_of_key("0"));
    assert_int_equal(slots_of_key("0"), 13907);
    assert_int_equal(slots_of_key("15"), 4178);
    assert_int_equal(slots_of_key("foo{}{bar}"), 8363);
    assert_int_equal(slots_of_key(""), 0);
}

static void
test_primary_of_a_slot_is_found(void **state)
{
    redisReply *reply = array(3);

    (void)state;
    reply->element[0] = range(0, 99, node("a", 1, NULL), node("b", 2, NULL));
    reply->element[1] = range(100, 16383, node("", 3, NULL), node(NULL, 4, NULL));
    reply->element[2] = range(50, 60, node("late", 9, NULL), NULL);
    assert_primary(reply, 0, "a", 1);
    assert_primary(reply, 99, "a", 1);
    assert_primary(reply, 100, "queried", 3);
    assert_primary(reply, 16383, "queried", 3);
    drop(reply);
}

static void
test_unknown_host_name_is_replaced_by_the_address(void **state)
{
    redisReply *reply = array(2);

    (void)state;
    reply->element[0] = range(0, 0, node("?", 1, "10.0.0.1"), NULL);
    reply->element[1] = range(1, 1, node("?", 2, NULL), NULL);
    assert_primary(reply, 0, "10.0.0.1", 1);
    assert_primary(reply, 1, "queried", 2);
    drop(reply);
}

static void
test_slot_without_a_primary_is_reported(void **state)
{
    redisReply *reply = array(4);
    struct slots_node found;

    (void)state;
    reply->element[0] = range(0, 9, node("a", 1, NULL), NULL);
    reply->element[1] = range(10, 19, node("a", 0, NULL), NULL);
    reply->element[2] = range(20, 29, array(0), NULL);
    reply->element[3] = array(0);
    for (unsigned slot = 10; slot <= 30; slot += 10)
        assert_int_equal(slots_primary(reply, slot, "queried", &found), RC_AGAIN);
    assert_int_equal(slots_primary(NULL, 0, "queried", &found), RC_AGAIN);
    drop(reply);
}

static void
test_each_node_is_listed_once(void **state)
{
    redisReply *reply = array(2);
    struct slots_node nodes[NODES_MAX];

    (void)state;
    reply->element[0] = range(0, 9, node("a", 1, NULL), node("b", 1, NULL));
    reply->element[1] = range(10, 19, node("a", 1, NULL), node("a", 2, NULL));
    assert_int_equal(slots_nodes(reply, "queried", nodes, NODES_MAX), 3);
    assert_string_equal(nodes[1].host, "b");
    assert_int_equal(nodes[2].port, 2);
    assert_int_equal(slots_nodes(reply, "queried", nodes, 2), 2);
    drop(reply);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slot_depends_on_the_string_in_braces),
        cmocka_unit_test(test_primary_of_a_slot_is_found),
        cmocka_unit_test(test_unknown_host_name_is_replaced_by_the_address),
        cmocka_unit_test(test_slot_without_a_primary_is_reported),
        cmocka_unit_test(test_each_node_is_listed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
