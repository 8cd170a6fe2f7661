/* fuzz_json_doc.c: compares the reader of JSON with jansson: errors, values, minified text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/fuzz/fuzz.h"
#include "wire/json_doc.h"

static void
demand(bool condition)
{
    if (!condition)
        __builtin_trap();
}

static void
compare_scalar(struct json_doc *doc, const struct json_value *value, const json_t *wanted)
{
    switch (json_typeof(wanted)) {
    case JSON_STRING:
        demand(json_is(value, JSON_KIND_TEXT) &&
               json_text_len(value) == json_string_length(wanted) &&
               strcmp(json_doc_text(doc, value), json_string_value(wanted)) == 0);
        break;
    case JSON_INTEGER:
        demand(json_is(value, JSON_KIND_INTEGER) &&
               json_doc_integer(doc, value) == json_integer_value(wanted));
        break;
    case JSON_REAL:
        demand(json_is(value, JSON_KIND_REAL) &&
               json_doc_number(doc, value) == json_real_value(wanted));
        break;
    default:
        demand(json_is(value, JSON_KIND_TRUE) == json_is_true(wanted) &&
               json_is(value, JSON_KIND_FALSE) == json_is_false(wanted) &&
               json_is(value, JSON_KIND_NULL) == json_is_null(wanted));
    }
}

static void
compare(struct json_doc *doc, const struct json_value *value, const json_t *wanted)
{
    const struct json_value *item = json_doc_first(doc, value);
    size_t count = 0;

    if (!json_is_object(wanted) && !json_is_array(wanted)) {
        compare_scalar(doc, value, wanted);
        return;
    }
    demand(json_is(value, JSON_KIND_OBJECT) == json_is_object(wanted) &&
           json_is(value, JSON_KIND_ARRAY) == json_is_array(wanted));
    for (; item != NULL; item = json_doc_next(doc, value, item), count++) {
        if (json_is_array(wanted)) {
            compare(doc, item, json_array_get(wanted, count));
        } else {
            const char *name = json_doc_text(doc, item);

            demand(json_doc_member(doc, value, name) == json_value_of(item));
            compare(doc, json_value_of(item), json_object_get(wanted, name));
        }
    }
    demand(count == (json_is_array(wanted) ? json_array_size(wanted) : json_object_size(wanted)));
    demand(count == json_doc_count(doc, value));
}

static bool
is_duplicate(const char *text)
{
    return strncmp(text, "duplicate", strlen("duplicate")) == 0;
}

/* Duplicate names are noticed later than by jansson, so another error may be the first. */
static void
compare_errors(const struct json_doc_error *error, const json_error_t *wanted)
{
    const bool is_range = json_error_code(wanted) == json_error_numeric_overflow;

    if (is_duplicate(wanted->text))
        return;
    demand(strcmp(error->text, wanted->text) == 0);
    demand((error->fault == JSON_FAULT_RANGE) == is_range);
    demand(!is_range || (error->line == wanted->line && error->column == wanted->column));
}

/* The minified text means the same, and has no white space that could be removed. */
static void
check_minified(const struct json_doc *doc, const json_t *wanted)
{
    struct buffer once, twice;
    struct json_doc_error error;
    struct json_doc again;
    json_t *read;

    buffer_init(&once, 8 * doc->len + 8);
    buffer_init(&twice, 8 * doc->len + 8);
    demand(json_doc_add(doc, json_doc_root(doc), &once) == RC_OK);
    read = json_loadb(once.bytes, once.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    demand(json_equal(read, wanted) == 1);
    demand(json_doc_parse(&again, once.bytes, once.len, true, &error) == RC_OK);
    demand(!again.has_blanks);
    demand(json_doc_add(&again, json_doc_root(&again), &twice) == RC_OK);
    demand(once.len == twice.len && memcmp(once.bytes, twice.bytes, once.len) == 0);
    json_doc_free(&again);
    json_decref(read);
    buffer_free(&once);
    buffer_free(&twice);
}

/* jansson ignores a zero byte after a number; no JSON contains one. */
static void
check(const char *text, size_t len, bool any)
{
    struct json_doc_error error = {.line = 0};
    struct json_doc doc;
    json_error_t load;
    json_t *wanted =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | (any ? JSON_DECODE_ANY : 0), &load);

    if (memchr(text, '\0', len) != NULL) {
        demand(json_doc_parse(&doc, text, len, any, &error) == RC_BAD);
    } else if (json_doc_parse(&doc, text, len, any, &error) == RC_OK) {
        demand(wanted != NULL);
        check_minified(&doc, wanted);
        compare(&doc, json_doc_root(&doc), wanted);
    } else {
        demand(wanted == NULL);
        compare_errors(&error, &load);
    }
    json_doc_free(&doc);
    json_decref(wanted);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + (size == 0)); /* exactly the size: ASan reports one byte more */

    demand(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    check(text, size, false);
    check(text, size, true);
    free(text);
    return 0;
}
