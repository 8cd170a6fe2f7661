/* test_gate_origin.c: only the relay's host and listed origins are allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_private.h"
#include "gate/http/request.h"

static void
same_host_is_allowed_by_default(void **state)
{
    (void)state;
    assert_true(gate_origin_allowed(NULL, "https://app.example", "app.example"));
    assert_true(gate_origin_allowed(NULL, "HTTPS://app.example", "app.example"));
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
host_as_a_prefix_is_rejected(void **state)
{
    static const char *const bad[] = {
        "http://app.example:8080.evil.example",
        "http://app.example:8080@evil.example",
        "http://app.example@evil.example",
        "http://app.example:abc",
        "http://app.example:",
        "http://app.example:123456",
        "http://app.example/evil",
        "http://app.example:8080/evil",
        "http://app.example?evil",
        "http://app.example#evil",
        "http://app.example\\evil",
        "http://app.example evil",
        "http://user:app.example",
        "x://y://app.example",
        "://app.example",
        "app.example",
        "file://app.example",
        "chrome-extension://app.example",
        "ws://app.example",
        "httpx://app.example",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (gate_origin_allowed(NULL, bad[i], "app.example:8080"))
            fail_msg("\"%s\" is allowed for app.example:8080", bad[i]);
    assert_false(gate_origin_allowed(NULL, "http://[::1]:8080.evil", "[::1]:8080"));
    assert_false(gate_origin_allowed(NULL, "http://[::1].evil", "[::1]:8080"));
    assert_false(gate_origin_allowed(NULL, "http://[]", "[]"));
    assert_false(gate_origin_allowed(NULL, "http://a", "a:x"));
    assert_false(gate_origin_allowed(NULL, "http://a", "a/x"));
}

static void
only_listed_origins_are_allowed(void **state)
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

static void
origin_lists_are_validated(void **state)
{
    static const char *const good[] = {
        "*",         "https://a",         "http://a:81, https://b.example",
        "null",      "HTTP://A.example",  "https://[::1]:3000,http://[::1]",
        "tauri://a", "file://,http://a,", "moz-extension://0a-1b",
    };
    static const char *const bad[] = {
        "https://a/",
        "https://a/b",
        "https://a,https://b/",
        "a.example",
        "https://",
        "https://a:",
        "https://a:0",
        "https://a:99999",
        "https://u@a",
        "://a",
        "https://*.a",
        "https://*.a:81",
        "https://a?b",
        "https:/a",
        "**",
        "https://[::1",
        "https://a;https://b",
        "https://a:81/",
        "file:///",
        "https://\xc3\xa9",
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (config_check_origins(good[i]) != NULL)
            fail_msg("\"%s\" is rejected", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (config_check_origins(bad[i]) == NULL)
            fail_msg("\"%s\" is accepted", bad[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_host_is_allowed_by_default),
        cmocka_unit_test(host_as_a_prefix_is_rejected),
        cmocka_unit_test(only_listed_origins_are_allowed),
        cmocka_unit_test(origin_lists_are_validated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
