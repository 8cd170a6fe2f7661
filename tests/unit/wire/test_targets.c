/* test_targets.c: the targets in the routing are found, even if the payload looks like routing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/frame.h"

#define RETRY "\"retry\":{\"ack_required\":false,\"attempts\":0,\"backoff\":\"FIXED\"}}}"

/* Checks that the targets are found in a notification with this payload; both are JSON. */
static void
assert_targets(const char *payload, const char *targets)
{
    char json[1024];
    struct bytes found;

    snprintf(json, sizeof(json),
             "{\"metadata\":{},\"payload\":%s,\"routing\":{\"audience\":{\"type\":\"USER\","
             "\"targets\":[%s]}," RETRY,
             payload, targets);
    found = notification_targets((struct bytes){(const unsigned char *)json, strlen(json)});
    assert_int_equal(found.len, strlen(targets));
    assert_memory_equal(found.at, targets, found.len);
    if (found.len > 0)
        assert_ptr_equal(found.at, strstr(json, "\"USER\",\"targets\":[") + 18);
}

static void
routing_targets_are_found(void **state)
{
    (void)state;
    assert_targets("{}", "\"u1\"");
    assert_targets("{}", "\"u1\",\"u2\"");
    assert_targets("{}", "");
    assert_targets("{\"targets\":[\"a\"]}", "\"u1\"");
    assert_targets("{\"audience\":{\"targets\":[\"a\"]},\"retry\":{\"x\":1}}", "\"u1\"");
    assert_targets("{\"t\":\"\\\"targets\\\":[\\\"a\\\"]},\\\"retry\\\":{\"}", "\"u1\"");
    assert_targets("{\"routing\":{\"audience\":{\"type\":\"X\",\"targets\":[\"a\"]},\"retry\":{}}}",
                   "");
}

static void
targets_with_json_syntax_are_found(void **state)
{
    (void)state;
    assert_targets("{}", "\"\\\"targets\\\":[\"");
    assert_targets("{}", "\"a\\\"]},\\\"retry\\\":{\",\"b\"");
    assert_targets("{}", "\"]},\",\"targets\",\":[\"");
}

/* A payload that looks like routing must not be cut where the notification has only a number. */
static void
a_number_of_recipients_has_no_targets(void **state)
{
    static const char *const PAYLOADS[] = {
        "{}",
        "{\"routing\":{\"audience\":{\"type\":\"X\",\"targets\":[\"a\"]},\"retry\":"
        "{\"ack_required\":true}}}",
    };
    char json[1024];

    (void)state;
    for (size_t i = 0; i < sizeof PAYLOADS / sizeof PAYLOADS[0]; i++) {
        snprintf(json, sizeof(json),
                 "{\"metadata\":{},\"payload\":%s,\"routing\":{\"audience\":{\"type\":\"USER\","
                 "\"targets\":[],\"recipients\":101}," RETRY,
                 PAYLOADS[i]);
        assert_int_equal(
            notification_targets((struct bytes){(const unsigned char *)json, strlen(json)}).len, 0);
    }
}

static void
other_json_has_no_targets(void **state)
{
    static const char *const others[] = {
        "",
        "{}",
        "{\"targets\":[\"a\"]}",
        "]},\"retry\":{\"ack_required\":",
        ",\"targets\":[\"a\"]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(notification_targets(
                             (struct bytes){(const unsigned char *)others[i], strlen(others[i])})
                             .len,
                         0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routing_targets_are_found),
        cmocka_unit_test(targets_with_json_syntax_are_found),
        cmocka_unit_test(a_number_of_recipients_has_no_targets),
        cmocka_unit_test(other_json_has_no_targets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
