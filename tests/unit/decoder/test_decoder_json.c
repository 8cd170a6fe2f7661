/* test_decoder_json.c: JSON escaping is correct for every length and all bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decoder/encode/json.h"

/* Allocates exactly the documented size, so that ASan reports an overflow by one byte. */
static char *
escaped(const char *src, size_t len, bool ascii)
{
    char *exact = malloc(JSON_ESCAPE_GROWTH * len + (len == 0));
    char *input = malloc(len + (len == 0));
    char *text;
    size_t written;

    assert_non_null(exact);
    assert_non_null(input);
    memcpy(input, src, len);
    written = (size_t)(json_escape(exact, input, len, ascii) - exact);
    text = calloc(1, written + 1);
    assert_non_null(text);
    memcpy(text, exact, written);
    free(exact);
    free(input);
    return text;
}

static void
assert_escaped(const char *src, size_t len, bool ascii, const char *expected)
{
    char *text = escaped(src, len, ascii);

    assert_string_equal(text, expected);
    free(text);
}

static void
test_every_single_byte_is_escaped(void **state)
{
    (void)state;
    assert_escaped("", 0, false, "");
    assert_escaped("\0", 1, false, "\\u0000");
    assert_escaped("\b\t\n\f\r\v\x1f", 7, false, "\\b\\t\\n\\f\\r\\u000b\\u001f");
    assert_escaped("\"\\/\x7f", 4, false, "\\\"\\\\/\x7f");
}

/* A special byte at each offset of strings around 16 bytes, the step of the SIMD loop. */
static void
test_escapes_are_correct_at_every_length_and_offset(void **state)
{
    char src[64];

    (void)state;
    for (size_t len = 1; len <= sizeof(src); len++) {
        for (size_t at = 0; at < len; at++) {
            char expected[sizeof(src) + 2] = {0};

            memset(src, 'x', len);
            src[at] = '"';
            memset(expected, 'x', len + 1);
            memcpy(expected + at, "\\\"", 2);
            assert_escaped(src, len, false, expected);
        }
    }
}

static void
test_valid_utf8_is_kept(void **state)
{
    (void)state;
    assert_escaped("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, false,
                   "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_escaped("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, true, "\\u00e9\\u20ac\\ud83d\\ude00");
}

static void
test_invalid_utf8_is_replaced(void **state)
{
    (void)state;
    assert_escaped("\xff", 1, true, "\\ufffd");
    assert_escaped("\xc0\x80", 2, true, "\\ufffd\\ufffd");            /* overlong */
    assert_escaped("\xed\xa0\x80", 3, true, "\\ufffd\\ufffd\\ufffd"); /* a surrogate */
    assert_escaped("\xf4\x90\x80\x80", 4, true, "\\ufffd\\ufffd\\ufffd\\ufffd");
    assert_escaped("\xe2\x82", 2, true, "\\ufffd\\ufffd"); /* truncated */
    assert_escaped("a\xe2\x82z", 4, false, "a\xef\xbf\xbd\xef\xbf\xbdz");
}

static void
test_compact_leaves_strings_unchanged(void **state)
{
    static const char src[] = " { \"a b\" : [ 1 ,\t2.0e3 ] ,\n\"\\\" x\" : \"\\u00e9 \\\\\" } ";
    char dst[JSON_ESCAPE_GROWTH * sizeof(src)];
    char *end = json_compact(dst, src, sizeof(src) - 1, false);

    (void)state;
    *end = '\0';
    assert_string_equal(dst, "{\"a b\":[1,2.0e3],\"\\\" x\":\"\\u00e9 \\\\\"}");
}

static void
test_json_is_indented(void **state)
{
    static const char src[] = "{\"a\":[],\"b\":{},\"c\":[1,\"x,:{\\\"\"]}";
    char dst[256] = {0};
    size_t len = json_pretty_len(src, sizeof(src) - 1);

    (void)state;
    assert_true(len < sizeof(dst));
    assert_ptr_equal(json_pretty(dst, src, sizeof(src) - 1), dst + len);
    assert_string_equal(dst, "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n"
                             "    \"x,:{\\\"\"\n  ]\n}");
}

static void
test_bytes_are_written_as_base64(void **state)
{
    static const char *const expected[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                           "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};

    (void)state;
    for (size_t len = 0; len <= 6; len++) {
        char dst[9] = {0};

        assert_ptr_equal(json_base64(dst, (const unsigned char *)"foobar", len),
                         dst + 4 * ((len + 2) / 3));
        assert_string_equal(dst, expected[len]);
    }
}

static void
test_truncation_keeps_characters_whole(void **state)
{
    (void)state;
    assert_int_equal(json_cut("a\xe2\x82\xac", 4, 4), 4);
    assert_int_equal(json_cut("a\xe2\x82\xac", 4, 3), 1);
    assert_int_equal(json_cut("a\xe2\x82\xac", 4, 2), 1);
    assert_int_equal(json_cut("\xe2\x82\xac", 3, 1), 1);
    assert_int_equal(json_cut("\x80\x80\x80\x80\x80\x80", 6, 5), 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_single_byte_is_escaped),
        cmocka_unit_test(test_escapes_are_correct_at_every_length_and_offset),
        cmocka_unit_test(test_valid_utf8_is_kept),
        cmocka_unit_test(test_invalid_utf8_is_replaced),
        cmocka_unit_test(test_compact_leaves_strings_unchanged),
        cmocka_unit_test(test_json_is_indented),
        cmocka_unit_test(test_bytes_are_written_as_base64),
        cmocka_unit_test(test_truncation_keeps_characters_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
