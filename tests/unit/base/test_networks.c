/* test_networks.c: network lists are validated, and addresses match their networks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/networks.h"

static void
addresses_networks_and_unix_are_valid(void **state)
{
    (void)state;
    assert_true(networks_are_valid(""));
    assert_true(networks_are_valid("192.0.2.7"));
    assert_true(networks_are_valid("10.0.0.0/8, 2001:db8::/32,unix ,::1"));
    assert_true(networks_are_valid("0.0.0.0/0"));
    assert_false(networks_are_valid("localhost"));
    assert_false(networks_are_valid("10.0.0.0/33"));
    assert_false(networks_are_valid("10.0.0.0/"));
    assert_false(networks_are_valid("10.0.0.0/8/8"));
    assert_false(networks_are_valid("10.0.0.0/-1"));
    assert_false(networks_are_valid("10.0.0"));
    assert_false(networks_are_valid("::1/129"));
    assert_false(networks_are_valid("unix/8"));
    assert_false(networks_are_valid("192.0.2.7; ::1"));
}

static void
addresses_match_their_networks(void **state)
{
    (void)state;
    assert_true(networks_contain("10.0.0.0/8", "10.255.1.2"));
    assert_false(networks_contain("10.0.0.0/8", "11.0.0.0"));
    assert_true(networks_contain("192.0.2.128/25", "192.0.2.129"));
    assert_false(networks_contain("192.0.2.128/25", "192.0.2.127"));
    assert_true(networks_contain("192.0.2.7", "::ffff:192.0.2.7"));
    assert_false(networks_contain("192.0.2.7", "192.0.2.8"));
    assert_true(networks_contain("127.0.0.1, 2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(networks_contain("2001:db8::/33", "2001:db8:8000::1"));
    assert_true(networks_contain("0.0.0.0/0", "198.51.100.1"));
    assert_false(networks_contain("0.0.0.0/0", "2001:db8::1"));
    assert_true(networks_contain("::/0", "198.51.100.1"));
    assert_true(networks_contain("10.0.0.0/8,unix", "unix"));
    assert_false(networks_contain("::/0", "unix"));
    assert_false(networks_contain("unix", "10.0.0.1"));
    assert_false(networks_contain("", "10.0.0.1"));
    assert_false(networks_contain(NULL, "10.0.0.1"));
    assert_false(networks_contain("::/0", "nonsense"));
}

static void
assert_aggregated(const char *from, const char *to)
{
    char address[NETWORKS_ADDRESS_MAX];

    snprintf(address, sizeof(address), "%s", from);
    networks_aggregate(address);
    assert_string_equal(address, to);
}

static void
ipv6_addresses_are_aggregated_to_64_bits(void **state)
{
    (void)state;
    assert_aggregated("192.0.2.7", "192.0.2.7");
    assert_aggregated("::ffff:192.0.2.7", "192.0.2.7");
    assert_aggregated("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
    assert_aggregated("2001:DB8:1:2::9", "2001:db8:1:2::");
    assert_aggregated("2001:db8:1:3::9", "2001:db8:1:3::");
    assert_aggregated("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "ffff:ffff:ffff:ffff::");
    assert_aggregated("unix", "unix");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_networks_and_unix_are_valid),
        cmocka_unit_test(addresses_match_their_networks),
        cmocka_unit_test(ipv6_addresses_are_aggregated_to_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
