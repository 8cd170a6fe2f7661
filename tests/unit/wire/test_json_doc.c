/* test_json_doc.c: JSON is read strictly, and its values are found and copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/json_doc.h"

static struct json_doc doc;
static struct json_doc_error error;

static enum rc
parse(const char *text)
{
    error = (struct json_doc_error){.line = 0};
    return json_doc_parse(&doc, text, strlen(text), false, &error);
}

static void
values_are_found(void **state)
{
    const struct json_value *root, *list, *item;

    (void)state;
    assert_int_equal(
        parse("{\"a\":-7,\"\\u0062\":[1.5,\"x\\n\\ud83d\\ude00\",true,null],\"c\":{}}"), RC_OK);
    root = json_doc_root(&doc);
    assert_int_equal(json_doc_count(&doc, root), 3);
    assert_int_equal(json_doc_integer(&doc, json_doc_member(&doc, root, "a")), -7);
    list = json_doc_member(&doc, root, "b");
    assert_int_equal(json_doc_count(&doc, list), 4);
    item = json_doc_first(&doc, list);
    assert_true(json_doc_number(&doc, item) == 1.5);
    item = json_doc_next(&doc, list, item);
    assert_string_equal(json_doc_text(&doc, item), "x\n\xf0\x9f\x98\x80");
    assert_int_equal(json_text_len(item), 6);
    item = json_doc_next(&doc, list, item);
    assert_true(json_is(item, JSON_KIND_TRUE) && json_is_bool(item));
    item = json_doc_next(&doc, list, item);
    assert_true(json_is(item, JSON_KIND_NULL));
    assert_null(json_doc_next(&doc, list, item));
    assert_null(json_doc_first(&doc, json_doc_member(&doc, root, "c")));
    assert_null(json_doc_member(&doc, root, "d"));
    assert_null(json_doc_text(&doc, json_doc_member(&doc, root, "a")));
    json_doc_free(&doc);
}

static void
many_values_are_found(void **state)
{
    struct buffer text;
    char name[16];

    (void)state;
    buffer_init(&text, 16384);
    for (int i = 0; i < 500; i++)
        assert_int_equal(buffer_addf(&text, "%s\"m%d\":%d", i > 0 ? "," : "{", i, i), RC_OK);
    assert_int_equal(buffer_addf(&text, "}"), RC_OK);
    assert_int_equal(parse(text.bytes), RC_OK);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        assert_int_equal(json_doc_integer(&doc, json_doc_member(&doc, json_doc_root(&doc), name)),
                         i);
    }
    json_doc_free(&doc);
    text.bytes[text.len - 1] = ',';
    assert_int_equal(buffer_addf(&text, "\"m77\":0}"), RC_OK);
    assert_int_equal(parse(text.bytes), RC_BAD);
    assert_int_equal(error.fault, JSON_FAULT_DUPLICATE);
    assert_string_equal(error.text, "duplicate object key near '\"m77\"'");
    json_doc_free(&doc);
    buffer_free(&text);
}

static void
white_space_is_removed(void **state)
{
    struct buffer out;

    (void)state;
    buffer_init(&out, 1000);
    assert_int_equal(parse(" {\t\"a \\\" b\" :\r\n[ 1.50 , \"\\u00e9 \" ] } \n"), RC_OK);
    assert_int_equal(json_doc_add(&doc, json_doc_root(&doc), &out), RC_OK);
    assert_string_equal(out.bytes, "{\"a \\\" b\":[1.50,\"\\u00e9 \"]}");
    buffer_free(&out);
    json_doc_free(&doc);
}

static void
invalid_json_is_described(void **state)
{
    static const struct {
        const char *text;
        enum json_fault fault;
        const char *error;
    } cases[] = {
        {"", JSON_FAULT_SYNTAX, "'[' or '{' expected near end of file"},
        {"7", JSON_FAULT_SYNTAX, "'[' or '{' expected near '7'"},
        {"[1,]", JSON_FAULT_SYNTAX, "unexpected token near ']'"},
        {"[1 2]", JSON_FAULT_SYNTAX, "']' expected near '2'"},
        {"[", JSON_FAULT_SYNTAX, "']' expected near end of file"},
        {"{\"a\" 1}", JSON_FAULT_SYNTAX, "':' expected near '1'"},
        {"{\"a\":1,}", JSON_FAULT_SYNTAX, "string or '}' expected near '}'"},
        {"{\"a\":yes}", JSON_FAULT_SYNTAX, "invalid token near 'yes'"},
        {"[01]", JSON_FAULT_SYNTAX, "invalid token near '0'"},
        {"[] []", JSON_FAULT_SYNTAX, "end of file expected near '['"},
        {"[\"\\x\"]", JSON_FAULT_SYNTAX, "invalid escape near '\"\\x'"},
        {"[\"\n\"]", JSON_FAULT_SYNTAX, "unexpected newline near '\"'"},
        {"[\"\\ud800\"]", JSON_FAULT_SURROGATE, "invalid Unicode '\\uD800' near '\"\\ud800\"'"},
        {"[\"a\xff\"]", JSON_FAULT_SYNTAX, "unable to decode byte 0xff near '\"a'"},
        {"[\"more than twenty bytes", JSON_FAULT_SYNTAX, "premature end of input"},
        {"[9223372036854775808]", JSON_FAULT_RANGE, "too big integer near '9223372036854775808'"},
        {"[-1e999]", JSON_FAULT_RANGE, "real number overflow near '-1e999'"},
        {"{\"a\":1,\"\\u0061\":2}", JSON_FAULT_DUPLICATE, "duplicate object key near '\"a\"'"},
        {"[\"\\u0000\"]", JSON_FAULT_NUL,
         "\\u0000 is not allowed without JSON_ALLOW_NUL near '\"\\u0000\"'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].text), RC_BAD);
        assert_string_equal(error.text, cases[i].error);
        assert_int_equal(error.fault, cases[i].fault);
        json_doc_free(&doc);
    }
}

static void
depth_is_limited(void **state)
{
    char text[2 * JSON_DOC_DEPTH_MAX + 3];

    (void)state;
    memset(text, '[', JSON_DOC_DEPTH_MAX);
    memset(text + JSON_DOC_DEPTH_MAX, ']', JSON_DOC_DEPTH_MAX);
    text[2 * JSON_DOC_DEPTH_MAX] = '\0';
    assert_int_equal(parse(text), RC_OK);
    json_doc_free(&doc);
    text[JSON_DOC_DEPTH_MAX] = '[';
    assert_int_equal(parse(text), RC_BAD);
    assert_int_equal(error.fault, JSON_FAULT_DEPTH);
    json_doc_free(&doc);
}

static void
line_and_column_are_reported(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"a\":1,\n \"\xc3\xa9\":1e400}"), RC_BAD);
    assert_int_equal(error.line, 2);
    assert_int_equal(error.column, 10);
    json_doc_free(&doc);
}

/* A parser that stops at the zero byte would store it. */
static void
zero_byte_is_rejected(void **state)
{
    static const char TEXT[] = "{\"a\":1\0}";

    (void)state;
    assert_int_equal(json_doc_parse(&doc, TEXT, sizeof(TEXT) - 1, false, &error), RC_BAD);
    json_doc_free(&doc);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found),       cmocka_unit_test(many_values_are_found),
        cmocka_unit_test(white_space_is_removed), cmocka_unit_test(invalid_json_is_described),
        cmocka_unit_test(depth_is_limited),       cmocka_unit_test(line_and_column_are_reported),
        cmocka_unit_test(zero_byte_is_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
