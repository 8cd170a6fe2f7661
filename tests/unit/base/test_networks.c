/* test_networks.c: network lists are validated, and addresses match their networks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/addresses.h"

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
special_addresses_are_not_public(void **state)
{
    static const char *const SPECIAL[] = {
        /* unspecified, private, shared, loopback, link-local */
        "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
        "127.0.0.1", "127.255.255.255", "169.254.0.1", "169.254.169.254", "172.16.0.0",
        "172.31.255.255", "192.168.0.0", "192.168.255.255",
        /* protocols, documentation, benchmarks, multicast, reserved, broadcast */
        "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.0", "198.19.255.255", "198.51.100.1",
        "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
        /* IPv6 */
        "::", "::1", "::127.0.0.1", "::8.8.8.8", "fc00::1", "fd00::1", "fe80::1", "febf::1",
        "fec0::1", "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "3fff::1", "2001::1", "2001:2::1",
        "2001:10::1", "5f00::1", "4000::1", "1fff::1",
        /* IPv4 in IPv6: mapped, NAT64, 6to4 */
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:1", "::ffff:169.254.169.254",
        "0:0:0:0:0:ffff:7f00:1", "::ffff:0:8.8.8.8", "64:ff9b::127.0.0.1", "64:ff9b::a00:1",
        "64:ff9b::192.168.1.1", "64:ff9b:1::8.8.8.8", "2002:7f00:1::1",
        "2002:a00:1::", "2002:c0a8:101::1", "2002:e000:1::1",
        /* no address in numeric form */
        "", "localhost", "127.1", "0x7f000001", "2130706433", "fe80::1%lo", "unix"};

    (void)state;
    for (size_t i = 0; i < sizeof(SPECIAL) / sizeof(SPECIAL[0]); i++)
        if (networks_is_public(SPECIAL[i]))
            fail_msg("%s is public", SPECIAL[i]);
}

static void
other_addresses_are_public(void **state)
{
    static const char *const PUBLIC[] = {
        "1.0.0.0",           "8.8.8.8",         "9.255.255.255",
        "11.0.0.0",          "100.63.255.255",  "100.128.0.0",
        "126.255.255.255",   "128.0.0.1",       "169.253.255.255",
        "169.255.0.0",       "172.15.255.255",  "172.32.0.0",
        "192.0.1.0",         "192.0.3.0",       "192.167.255.255",
        "192.169.0.0",       "198.17.255.255",  "198.20.0.0",
        "223.255.255.255",   "2001:200::1",     "2001:4860:4860::8888",
        "2a00:1450:4001::1", "2606:4700::1111", "3ffe::1",
        "3fff:1000::1",      "::ffff:8.8.8.8",  "64:ff9b::8.8.8.8",
        "2002:808:808::1"};

    (void)state;
    for (size_t i = 0; i < sizeof(PUBLIC) / sizeof(PUBLIC[0]); i++)
        if (!networks_is_public(PUBLIC[i]))
            fail_msg("%s is not public", PUBLIC[i]);
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
        cmocka_unit_test(special_addresses_are_not_public),
        cmocka_unit_test(other_addresses_are_public),
        cmocka_unit_test(ipv6_addresses_are_aggregated_to_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
