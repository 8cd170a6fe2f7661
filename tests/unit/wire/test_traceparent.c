/* test_traceparent.c: traceparent follows W3C Trace Context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/frame.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define GOOD "00-" TRACE "-" PARENT "-01"

static const char *
read_as(const char *text)
{
    static char parsed[TRACEPARENT_LEN + 1];

    return traceparent_read(text, strlen(text), parsed) ? parsed : NULL;
}

static void
valid_traceparent_is_accepted(void **state)
{
    (void)state;
    assert_string_equal(read_as(GOOD), GOOD);
    assert_string_equal(read_as("00-" TRACE "-" PARENT "-00"), "00-" TRACE "-" PARENT "-00");
    assert_string_equal(read_as("00-" TRACE "-" PARENT "-fe"), "00-" TRACE "-" PARENT "-fe");
    assert_true(traceparent_is_sampled(GOOD));
    assert_false(traceparent_is_sampled("00-" TRACE "-" PARENT "-fe"));
}

static void
later_versions_are_truncated(void **state)
{
    (void)state;
    assert_string_equal(read_as("01-" TRACE "-" PARENT "-03"), GOOD);
    assert_string_equal(read_as("fe-" TRACE "-" PARENT "-02-x"), "00-" TRACE "-" PARENT "-00");
}

static void
invalid_traceparent_is_rejected(void **state)
{
    static const char *const WRONG[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-011",
        "00-" TRACE "-" PARENT "-01-more",
        "01-" TRACE "-" PARENT "-01more",
        "ff-" TRACE "-" PARENT "-01",
        "0g-" TRACE "-" PARENT "-01",
        "00-4BF92f3577b34da6a3ce929d0e0e4736-" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        "00-" TRACE "-" PARENT "-0\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++)
        assert_null(read_as(WRONG[i]));
}

static bool
is_found(const char *line)
{
    char parsed[TRACEPARENT_LEN + 1];

    return notification_traceparent((struct bytes){(const unsigned char *)line, strlen(line)},
                                    parsed) &&
           strcmp(parsed, GOOD) == 0;
}

static void
only_metadata_is_searched(void **state)
{
    (void)state;
    assert_true(is_found("{\"metadata\":{\"id\":1,\"traceparent\":\"" GOOD
                         "\",\"timestamp\":\"\"},\"payload\":{}"));
    assert_false(is_found("{\"metadata\":{\"id\":1},\"payload\":{\"traceparent\":\"" GOOD "\"}}"));
    assert_false(is_found("{\"metadata\":{\"id\":1,\"topic\":\",\\\"traceparent\\\":\\\"" GOOD
                          "\\\"\"},\"payload\":{}}"));
    assert_false(is_found("{\"metadata\":{\"id\":1,\"traceparent\":\"00-1\"},\"payload\":{}}"));
    assert_false(is_found(",\"traceparent\":\"" GOOD "\""));
    assert_false(is_found(""));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_traceparent_is_accepted),
        cmocka_unit_test(later_versions_are_truncated),
        cmocka_unit_test(invalid_traceparent_is_rejected),
        cmocka_unit_test(only_metadata_is_searched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
