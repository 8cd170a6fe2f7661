/* test_rows_result.c: rows are limited, and written unchanged as pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rows/rows_private.h"

#define HEADER "{\"key\":[\"id\"],\"snapshot\":\"5:9:7\",\"audience\":\"ALL\",\"judge\":[\"a\"]}"
#define LATER_PAGE(rows, more)                                                                     \
    "{\"t\":\"rows\",\"r\":3,\"key\":[\"id\"],\"snapshot\":\"5:9:7\",\"rows\":[" rows              \
    "],\"more\":" more "}"
#define PAGE(rows, more)                                                                           \
    "{\"t\":\"rows\",\"r\":3,\"key\":[\"id\"],\"snapshot\":\"5:9:7\",\"judge\":[\"a\"],"           \
    "\"rows\":[" rows "],\"more\":" more "}"

static size_t held;

static enum rc
add(struct rows_result *result, const char *text)
{
    return rows_result_add(result, text, strlen(text));
}

static struct rows_result *
begin(size_t max_rows, size_t max_bytes)
{
    struct rows_result *result = rows_result_new(max_rows, max_bytes, &held);

    assert_int_equal(add(result, HEADER), RC_OK);
    return result;
}

static size_t
page(const struct rows_result *result, size_t first, struct buffer *out)
{
    size_t next = 0;

    buffer_init(out, 2 * ROWS_PAGE_MAX);
    assert_int_equal(rows_result_write_page(result, first, 3, out, &next), RC_OK);
    return next;
}

static void
small_list_is_one_page(void **state)
{
    struct rows_result *result = begin(10, 1000);
    struct buffer out;

    (void)state;
    assert_int_equal(add(result, "{\"id\":1}"), RC_OK);
    assert_int_equal(add(result, "{\"id\":2}"), RC_OK);
    assert_int_equal(page(result, 0, &out), 2);
    assert_string_equal(out.bytes, PAGE("{\"id\":1},{\"id\":2}", "false"));
    buffer_free(&out);
    buffer_init(&out, 1000);
    assert_int_equal(rows_result_write(result, &out), RC_OK);
    assert_string_equal(out.bytes,
                        "{\"key\":[\"id\"],\"snapshot\":\"5:9:7\",\"judge\":[\"a\"],\"rows\":["
                        "{\"id\":1},{\"id\":2}]}\n");
    buffer_free(&out);
    rows_result_unref(result);
}

static void
empty_list_is_one_page(void **state)
{
    struct rows_result *result = begin(10, 1000);
    struct buffer out;

    (void)state;
    assert_int_equal(page(result, 0, &out), 0);
    assert_string_equal(out.bytes, PAGE("", "false"));
    buffer_free(&out);
    rows_result_unref(result);
}

static char *
row_of(size_t len, char letter)
{
    char *row = malloc(len + 1);

    memset(row, letter, len);
    row[len] = '\0';
    return row;
}

static void
pages_contain_all_rows_that_fit(void **state)
{
    struct rows_result *result = begin(1000, 4 << 20);
    size_t first = 0, pages = 0;

    (void)state;
    for (int i = 0; i < 26; i++) {
        char *row = row_of(30000, (char)('a' + i));

        assert_int_equal(add(result, row), RC_OK);
        free(row);
    }
    do {
        struct buffer out;
        size_t next = page(result, first, &out);

        assert_int_equal(next - first, next < 26 ? 8 : 26 % 8);
        assert_true(out.len <= ROWS_PAGE_MAX);
        assert_int_equal(strstr(out.bytes, "\"more\":true") != NULL, next < 26);
        buffer_free(&out);
        first = next;
        pages++;
    } while (first < 26);
    assert_int_equal(pages, 4);
    rows_result_unref(result);
}

static void
row_larger_than_a_page_has_a_separate_page(void **state)
{
    struct rows_result *result = begin(10, 4 << 20);
    char *large = row_of(ROWS_PAGE_MAX + 10, 'x');
    struct buffer out;

    (void)state;
    assert_int_equal(add(result, "1"), RC_OK);
    assert_int_equal(add(result, large), RC_OK);
    assert_int_equal(add(result, "3"), RC_OK);
    assert_int_equal(page(result, 0, &out), 1);
    assert_string_equal(out.bytes, PAGE("1", "true"));
    buffer_free(&out);
    assert_int_equal(page(result, 1, &out), 2);
    assert_true(out.len > ROWS_PAGE_MAX);
    buffer_free(&out);
    assert_int_equal(page(result, 2, &out), 3);
    assert_string_equal(out.bytes, LATER_PAGE("3", "false"));
    buffer_free(&out);
    free(large);
    rows_result_unref(result);
}

static void
rows_and_bytes_are_limited(void **state)
{
    struct rows_result *result = begin(2, 1000);

    (void)state;
    assert_int_equal(add(result, "1"), RC_OK);
    assert_int_equal(add(result, "2"), RC_OK);
    assert_int_equal(add(result, "3"), RC_LIMIT);
    rows_result_unref(result);
    result = begin(10, 6);
    assert_int_equal(add(result, "12"), RC_OK);
    assert_int_equal(add(result, "12345"), RC_LIMIT);
    assert_int_equal(add(result, "3456"), RC_OK);
    assert_int_equal(result->count, 2);
    assert_int_equal(add(result, "7"), RC_LIMIT);
    rows_result_unref(result);
}

/* Otherwise a client could not get past a row that is larger than rows.max_bytes. */
static void
first_row_may_be_large_if_the_request_has_a_limit(void **state)
{
    struct rows_result *result = begin(2, 4);

    (void)state;
    assert_int_equal(add(result, "12345"), RC_LIMIT);
    result->has_limit = true;
    assert_int_equal(add(result, "12345"), RC_OK);
    assert_int_equal(add(result, "1"), RC_LIMIT);
    assert_int_equal(add(result, ""), RC_OK);
    rows_result_unref(result);
}

/* The server counts the bytes of the rows, without the commas between them. */
static void
commas_are_not_counted(void **state)
{
    struct rows_result *result = begin(10, 10);
    struct buffer out;

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(add(result, "1"), RC_OK);
    assert_int_equal(page(result, 0, &out), 10);
    assert_string_equal(out.bytes, PAGE("1,1,1,1,1,1,1,1,1,1", "false"));
    buffer_free(&out);
    rows_result_unref(result);
}

static void
invalid_rows_are_rejected(void **state)
{
    struct rows_result *result = rows_result_new(10, 1000, &held);

    (void)state;
    assert_int_equal(add(result, "{\"id\":1}"), RC_BAD);
    assert_int_equal(add(result, HEADER), RC_OK);
    assert_int_equal(add(result, "{\"id\":\n1}"), RC_BAD);
    assert_int_equal(add(result, ""), RC_OK);
    assert_int_equal(add(result, ""), RC_BAD);
    assert_int_equal(add(result, "{\"id\":1}"), RC_BAD);
    rows_result_unref(result);
    result = rows_result_new(10, 1000, &held);
    assert_int_equal(add(result, "{\"error\":103,\"text\":\"secret\"}"), RC_OK);
    assert_int_equal(add(result, "{\"id\":1}"), RC_BAD);
    rows_result_unref(result);
}

static void
last_page_shows_that_more_rows_match(void **state)
{
    struct rows_result *result = begin(10, 4 << 20);
    char *large = row_of(ROWS_PAGE_MAX, 'x');
    struct buffer out;

    (void)state;
    assert_int_equal(add(result, large), RC_OK);
    assert_int_equal(add(result, "2"), RC_OK);
    assert_int_equal(add(result, ""), RC_OK);
    assert_int_equal(page(result, 0, &out), 1);
    assert_non_null(strstr(out.bytes, "],\"more\":true}"));
    buffer_free(&out);
    assert_int_equal(page(result, 1, &out), 2);
    assert_string_equal(out.bytes, LATER_PAGE("2", "false,\"rest\":true"));
    buffer_free(&out);
    buffer_init(&out, 1 << 20);
    assert_int_equal(rows_result_write(result, &out), RC_OK);
    assert_non_null(strstr(out.bytes, ",2],\"rest\":true}\n"));
    buffer_free(&out);
    free(large);
    rows_result_unref(result);
}

static void
count_is_one_frame_without_rows(void **state)
{
    struct rows_result *result = rows_result_new(10, 1000, &held);
    struct buffer out;

    (void)state;
    assert_int_equal(add(result, "{\"key\":[\"id\"],\"snapshot\":\"5:9:7\",\"audience\":\"ALL\","
                                 "\"judge\":[\"a\"],\"count\":0}"),
                     RC_OK);
    assert_int_equal(add(result, "{\"id\":1}"), RC_BAD);
    assert_int_equal(page(result, 0, &out), result->count);
    assert_string_equal(out.bytes, "{\"t\":\"rows\",\"r\":3,\"count\":0,\"snapshot\":\"5:9:7\","
                                   "\"judge\":[\"a\"]}");
    buffer_free(&out);
    buffer_init(&out, 1000);
    assert_int_equal(rows_result_write(result, &out), RC_OK);
    assert_string_equal(out.bytes, "{\"count\":0,\"snapshot\":\"5:9:7\",\"judge\":[\"a\"]}\n");
    buffer_free(&out);
    rows_result_unref(result);
}

static void
memory_is_counted_until_the_last_unref(void **state)
{
    struct rows_result *result = begin(1000, 1000);
    size_t held_before;

    (void)state;
    held = 0;
    assert_int_equal(add(result, "12345"), RC_OK);
    assert_int_equal(held, 6 + result->room * sizeof(*result->ends));
    for (size_t room = result->room; result->room == room;) {
        held_before = held;
        assert_int_equal(add(result, "1"), RC_OK);
    }
    assert_int_equal(held - held_before, 2 + result->room / 2 * sizeof(*result->ends));
    held_before = held;
    rows_result_unref(rows_result_ref(result));
    assert_int_equal(held, held_before);
    rows_result_unref(result);
    assert_int_equal(held, 0);
    rows_result_unref(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_list_is_one_page),
        cmocka_unit_test(empty_list_is_one_page),
        cmocka_unit_test(pages_contain_all_rows_that_fit),
        cmocka_unit_test(row_larger_than_a_page_has_a_separate_page),
        cmocka_unit_test(rows_and_bytes_are_limited),
        cmocka_unit_test(first_row_may_be_large_if_the_request_has_a_limit),
        cmocka_unit_test(commas_are_not_counted),
        cmocka_unit_test(invalid_rows_are_rejected),
        cmocka_unit_test(last_page_shows_that_more_rows_match),
        cmocka_unit_test(count_is_one_frame_without_rows),
        cmocka_unit_test(memory_is_counted_until_the_last_unref),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
