/* test_gate_origin.c: which web pages may open a connection? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/gate_conn.h"

static void
same_host_by_default(void **state)
{
    (void)state;
    assert_true(gate_origin_allowed(NULL, "https://app.example", "app.example"));
    assert_true(gate_origin_allowed(NULL, "http://App.Example:3000", "app.example:8080"));
    assert_true(gate_origin_allowed(NULL, "http://[::1]:3000", "[::1]:8080"));
    assert_false(gate_origin_allowed(NULL, "http://[::1]:3000", "[::2]:8080"));
    assert_false(gate_origin_allowed(NULL, "https://app.example.evil", "app.example"));
    assert_false(gate_origin_allowed(NULL, "https://app", "app.example"));
    assert_false(gate_origin_allowed(NULL, "https://evil/app.example", "app.example"));
    assert_false(gate_origin_allowed(NULL, "null", "null"));
    assert_false(gate_origin_allowed(NULL, "://", ""));
    assert_false(gate_origin_allowed(NULL, "", ""));
}

static void
only_the_listed_ones_when_set(void **state)
{
    static const char LIST[] = "https://a.example, http://b.example:8080";

    (void)state;
    assert_true(gate_origin_allowed(LIST, "https://a.example", "relay.example"));
    assert_true(gate_origin_allowed(LIST, "HTTP://b.example:8080", "relay.example"));
    assert_false(gate_origin_allowed(LIST, "http://a.example", "relay.example"));
    assert_false(gate_origin_allowed(LIST, "http://b.example", "relay.example"));
    assert_false(gate_origin_allowed(LIST, "https://relay.example", "relay.example"));
    assert_false(gate_origin_allowed(LIST, "", "relay.example"));
    assert_false(gate_origin_allowed("", "https://relay.example", "relay.example"));
    assert_true(gate_origin_allowed("*", "https://any.example", "relay.example"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_host_by_default),
        cmocka_unit_test(only_the_listed_ones_when_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
