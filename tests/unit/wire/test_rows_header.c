/* test_rows_header.c: the first row of clairon.live_rows() is parsed strictly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/snapshot.h"

static void
fields_are_read(void **state)
{
    static const char text[] = "{\"key\": [\"id\", \"a \\\"b\\\"\"], \"snapshot\": \"5:9:7\","
                               " \"audience\": \"STRUCTURE+ROLE\", \"later\": 1}";
    struct rows_header header = {0};

    (void)state;
    assert_int_equal(rows_header_parse(text, strlen(text), &header), RC_OK);
    assert_string_equal(header.key, "[\"id\",\"a \\\"b\\\"\"]");
    assert_string_equal(header.snapshot_text, "5:9:7");
    assert_string_equal(header.audience, "STRUCTURE+ROLE");
    assert_false(snapshot_contains(&header.snapshot, 7));
    assert_true(snapshot_contains(&header.snapshot, 8));
    rows_header_free(&header);
    assert_null(header.key);
}

static void
invalid_headers_are_rejected(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"id\":1}",
        "{\"key\":[],\"snapshot\":\"5:9:\",\"audience\":\"ALL\"}",
        "{\"key\":\"id\",\"snapshot\":\"5:9:\",\"audience\":\"ALL\"}",
        "{\"key\":[1],\"snapshot\":\"5:9:\",\"audience\":\"ALL\"}",
        "{\"key\":[\"id\"],\"snapshot\":\"9:5:\",\"audience\":\"ALL\"}",
        "{\"key\":[\"id\"],\"snapshot\":5,\"audience\":\"ALL\"}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"\"}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\"}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"ALL\"} x",
    };
    struct rows_header header = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(rows_header_parse(texts[i], strlen(texts[i]), &header), RC_BAD);
    assert_null(header.key);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_read),
        cmocka_unit_test(invalid_headers_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
