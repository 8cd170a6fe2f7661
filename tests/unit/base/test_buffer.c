/* test_buffer.c: a buffer respects its limit, stays NUL-terminated and escapes JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/text.h"

static void
buffer_grows_up_to_its_limit(void **state)
{
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer, 200);
    for (int i = 0; i < 20; i++)
        assert_int_equal(buffer_add(&buffer, "0123456789", 10), RC_OK);
    assert_int_equal(buffer_add(&buffer, "x", 1), RC_LIMIT);
    assert_int_equal(buffer_addf(&buffer, "%d", 1), RC_LIMIT);
    assert_int_equal(buffer_add(&buffer, NULL, 0), RC_OK);
    assert_int_equal(buffer.len, 200);
    assert_int_equal(strlen(buffer.bytes), 200);
    assert_true(buffer.room <= 201);
    buffer_free(&buffer);
    assert_null(buffer.bytes);
    assert_int_equal(buffer_add(&buffer, "again", 5), RC_OK);
    assert_string_equal(buffer.bytes, "again");
    buffer_free(&buffer);
}

static void
overflowing_length_is_rejected(void **state)
{
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer, 10);
    assert_int_equal(buffer_add(&buffer, "abc", 3), RC_OK);
    assert_int_equal(buffer_add(&buffer, "abc", SIZE_MAX), RC_LIMIT);
    assert_string_equal(buffer.bytes, "abc");
    buffer_clear(&buffer);
    assert_string_equal(buffer.bytes, "");
    buffer_free(&buffer);
}

static void
formatted_strings_are_appended(void **state)
{
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer, 1000);
    assert_int_equal(buffer_addf(&buffer, "%s=%d", "a", 1), RC_OK);
    assert_int_equal(buffer_addf(&buffer, "%0200d", 7), RC_OK);
    assert_int_equal(buffer.len, 203);
    assert_memory_equal(buffer.bytes, "a=10", 3);
    assert_int_equal(buffer.bytes[202], '7');
    buffer_free(&buffer);
}

static void
check_json(const char *text, size_t len, const char *expected)
{
    struct buffer buffer;

    buffer_init(&buffer, 1000);
    assert_int_equal(buffer_add_json(&buffer, text, len), RC_OK);
    assert_string_equal(buffer.bytes, expected);
    buffer_free(&buffer);
}

static void
any_bytes_become_valid_json(void **state)
{
    (void)state;
    check_json("", 0, "\"\"");
    check_json("a\"b\\c\n\r\t\b\f\x01\x1f/\x7f", 14,
               "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f/\x7f\"");
    check_json("a\0b", 3, "\"a\\u0000b\"");
    check_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
               "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    check_json("a\xff"
               "b",
               3, "\"a" UTF8_REPLACEMENT "b\"");
    check_json("\xe2\x82", 2, "\"" UTF8_REPLACEMENT UTF8_REPLACEMENT "\"");
}

static void
json_over_the_limit_leaves_the_buffer_unchanged(void **state)
{
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer, 8);
    assert_int_equal(buffer_add(&buffer, "abc", 3), RC_OK);
    assert_int_equal(buffer_add_json(&buffer, "defg", 4), RC_LIMIT);
    assert_string_equal(buffer.bytes, "abc");
    assert_int_equal(buffer_add_json(&buffer, "def", 3), RC_OK);
    assert_string_equal(buffer.bytes, "abc\"def\"");
    buffer_free(&buffer);
}

static void
utf8_is_validated(void **state)
{
    size_t len = 0;

    (void)state;
    assert_int_equal(utf8_char_len("", 0), 0);
    assert_int_equal(utf8_char_len("\xc3\xa9", 2), 2);
    assert_int_equal(utf8_char_len("\xc3\xa9", 1), 0);
    assert_int_equal(utf8_char_len("\xc0\x80", 2), 0);     /* overlong */
    assert_int_equal(utf8_char_len("\xe0\x9f\xbf", 3), 0); /* overlong */
    assert_int_equal(utf8_char_len("\xe0\xa0\x80", 3), 3);
    assert_int_equal(utf8_char_len("\xed\xa0\x80", 3), 0);     /* surrogate */
    assert_int_equal(utf8_char_len("\xf0\x8f\xbf\xbf", 4), 0); /* overlong */
    assert_int_equal(utf8_char_len("\xf4\x8f\xbf\xbf", 4), 4);
    assert_int_equal(utf8_char_len("\xf4\x90\x80\x80", 4), 0); /* above U+10FFFF */
    assert_int_equal(utf8_char_len("\x80", 1), 0);
    assert_int_equal(utf8_char_len("\xf5\x80\x80\x80", 4), 0);
    assert_true(utf8_is_prefix("a\xe0", 2, &len) && len == 1);
    assert_true(utf8_is_prefix("a\xed\x9f", 3, &len) && len == 1);
    assert_true(utf8_is_prefix("\xf4\x8f\xbf", 3, &len) && len == 0);
    assert_true(utf8_is_prefix("\xc3\xa9", 2, &len) && len == 2);
    assert_false(utf8_is_prefix("a\xed\xa0", 3, &len));
    assert_false(utf8_is_prefix("\xf4\x90", 2, &len));
    assert_false(utf8_is_prefix("\xc0", 1, &len));
    assert_false(utf8_is_prefix("\xe0\x80", 2, &len));
    /* at each place among eight bytes, and behind them */
    for (size_t before = 0; before <= 17; before++) {
        char text[20] = "abcdefghijklmnopq";

        assert_true(utf8_is_prefix(text, before, &len) && len == before);
        memcpy(text + before, "\xc3\xa9", 2);
        assert_true(utf8_is_prefix(text, before + 2, &len) && len == before + 2);
        assert_true(utf8_is_prefix(text, before + 1, &len) && len == before);
        text[before + 1] = 'x';
        assert_false(utf8_is_prefix(text, before + 2, &len));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_grows_up_to_its_limit),
        cmocka_unit_test(overflowing_length_is_rejected),
        cmocka_unit_test(formatted_strings_are_appended),
        cmocka_unit_test(any_bytes_become_valid_json),
        cmocka_unit_test(json_over_the_limit_leaves_the_buffer_unchanged),
        cmocka_unit_test(utf8_is_validated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
