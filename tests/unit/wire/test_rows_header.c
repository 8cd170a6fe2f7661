/* test_rows_header.c: the first row of clairon.live_rows() is parsed strictly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "wire/codes.h"
#include "wire/snapshot.h"

static void
fields_are_read(void **state)
{
    static const char text[] =
        "{\"key\": [\"id\", \"a \\\"b\\\"\"], \"snapshot\": \"5:9:7\","
        " \"audience\": \"STRUCTURE+ROLE\", \"later\": 1, \"judge\": [\"a\", \"b\"]}";
    struct rows_header header = {0};

    (void)state;
    assert_int_equal(rows_header_parse(text, strlen(text), &header), RC_OK);
    assert_string_equal(header.key, "[\"id\",\"a \\\"b\\\"\"]");
    assert_string_equal(header.snapshot_text, "5:9:7");
    assert_string_equal(header.audience, "STRUCTURE+ROLE");
    assert_string_equal(header.judge, "[\"a\",\"b\"]");
    assert_int_equal(header.count, -1);
    assert_int_equal(header.error, 0);
    assert_false(snapshot_contains(&header.snapshot, 7));
    assert_true(snapshot_contains(&header.snapshot, 8));
    rows_header_free(&header);
    assert_null(header.key);
}

static void
parse(const char *text, struct rows_header *header)
{
    assert_int_equal(rows_header_parse(text, strlen(text), header), RC_OK);
}

static void
counts_and_errors_are_read(void **state)
{
    struct rows_header header = {0};

    (void)state;
    parse("{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"ALL\",\"judge\":[],"
          "\"count\":312}",
          &header);
    assert_int_equal(header.count, 312);
    assert_string_equal(header.judge, "[]");
    rows_header_free(&header);
    parse("{\"error\":107,\"text\":\"column \\\"a\\\": no\"}", &header);
    assert_int_equal(header.error, GATE_ERR_BAD_REQUEST);
    assert_string_equal(header.error_text, "column \"a\": no");
    rows_header_free(&header);
    parse("{\"error\":103}", &header);
    assert_int_equal(header.error, GATE_ERR_PERMISSION);
    assert_null(header.error_text);
    rows_header_free(&header);
}

/* The value of a client may be long, and have long characters. */
static void
long_error_is_cut_at_a_character(void **state)
{
    struct rows_header header = {0};
    struct buffer text;

    (void)state;
    buffer_init(&text, 1000);
    assert_int_equal(buffer_addf(&text, "{\"error\":107,\"text\":\"x"), RC_OK);
    for (int i = 0; i < 200; i++)
        assert_int_equal(buffer_addf(&text, "\xc3\xa9"), RC_OK);
    assert_int_equal(buffer_addf(&text, "\"}"), RC_OK);
    parse(text.bytes, &header);
    assert_int_equal(strlen(header.error_text), ROWS_HEADER_ERROR_MAX - 1);
    rows_header_free(&header);
    buffer_free(&text);
}

static void
invalid_headers_are_rejected(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"id\":1}",
        "{\"key\":[],\"snapshot\":\"5:9:\",\"audience\":\"ALL\",\"judge\":[]}",
        "{\"key\":\"id\",\"snapshot\":\"5:9:\",\"audience\":\"ALL\",\"judge\":[]}",
        "{\"key\":[1],\"snapshot\":\"5:9:\",\"audience\":\"ALL\",\"judge\":[]}",
        "{\"key\":[\"id\"],\"snapshot\":\"9:5:\",\"audience\":\"ALL\",\"judge\":[]}",
        "{\"key\":[\"id\"],\"snapshot\":5,\"audience\":\"ALL\",\"judge\":[]}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"\",\"judge\":[]}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"judge\":[]}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"ALL\",\"judge\":[]} x",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"ALL\"}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"ALL\",\"judge\":[1]}",
        "{\"key\":[\"id\"],\"snapshot\":\"5:9:\",\"audience\":\"ALL\",\"judge\":[],\"count\":-2}",
        "{\"error\":107}",
        "{\"error\":100,\"text\":\"x\"}",
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
        cmocka_unit_test(counts_and_errors_are_read),
        cmocka_unit_test(long_error_is_cut_at_a_character),
        cmocka_unit_test(invalid_headers_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
