/* test_targets.c: are the targets of a routing found, whatever else looks like them? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/targets.h"

#define RETRY "\"retry\":{\"ack_required\":false,\"attempts\":0,\"backoff\":\"FIXED\"}}}"

/* Of a notification with this payload and these targets, both as JSON. */
static void
finds(const char *payload, const char *targets)
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
finds_those_of_the_routing(void **state)
{
    (void)state;
    finds("{}", "\"u1\"");
    finds("{}", "\"u1\",\"u2\"");
    finds("{}", "");
    finds("{\"targets\":[\"a\"]}", "\"u1\"");
    finds("{\"audience\":{\"targets\":[\"a\"]},\"retry\":{\"x\":1}}", "\"u1\"");
    finds("{\"t\":\"\\\"targets\\\":[\\\"a\\\"]},\\\"retry\\\":{\"}", "\"u1\"");
    finds("{\"routing\":{\"audience\":{\"type\":\"X\",\"targets\":[\"a\"]},\"retry\":{}}}", "");
}

static void
is_not_fooled_by_a_target(void **state)
{
    (void)state;
    finds("{}", "\"\\\"targets\\\":[\"");
    finds("{}", "\"a\\\"]},\\\"retry\\\":{\",\"b\"");
    finds("{}", "\"]},\",\"targets\",\":[\"");
}

static void
finds_nothing_elsewhere(void **state)
{
    static const char *const others[] = {
        "", "{}", "{\"targets\":[\"a\"]}", "]},\"retry\":{", "\"targets\":[\"a\"]}",
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
        cmocka_unit_test(finds_those_of_the_routing),
        cmocka_unit_test(is_not_fooled_by_a_target),
        cmocka_unit_test(finds_nothing_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
