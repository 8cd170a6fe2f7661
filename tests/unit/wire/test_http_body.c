/* test_http_body.c: the end of a body is found, and ambiguous chunks are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/http_body.h"

#define ROOM 2048

/* Parses the bytes in pieces. Returns the number of used bytes; -1: invalid. */
static int
parse(const struct http_head *head, const char *bytes, size_t piece_max, char data[ROOM])
{
    struct http_body body;
    size_t len = strlen(bytes), used = 0, data_len = 0;

    http_body_begin(&body, head);
    while (used < len && body.part != HTTP_BODY_COMPLETE) {
        size_t piece = len - used < piece_max ? len - used : piece_max, part = 0;
        const char *why = NULL;
        struct bytes found;

        if (http_body_next(&body, bytes + used, piece, &part, &found, &why) != RC_OK) {
            assert_non_null(why);
            return -1;
        }
        assert_in_range(part, 1, piece);
        assert_true(data_len + found.len < ROOM);
        memcpy(data + data_len, found.at != NULL ? found.at : (const unsigned char *)"", found.len);
        data_len += found.len;
        used += part;
    }
    data[data_len] = '\0';
    return body.part == HTTP_BODY_COMPLETE ? (int)used : 0;
}

static void
check(const struct http_head *head, const char *bytes, int used, const char *data)
{
    char found[ROOM];

    for (size_t piece = 1; piece <= strlen(bytes) + 1; piece++) {
        int got = parse(head, bytes, piece, found);

        if (got != used)
            fail_msg("%d bytes of %s used, not %d", got, bytes, used);
        if (used > 0)
            assert_string_equal(found, data);
    }
}

static const struct http_head CHUNKED = {.is_chunked = true};

static void
length_ends_the_body(void **state)
{
    const struct http_head none = {0}, five = {.content_length = 5};

    (void)state;
    check(&none, "hello", 0, "");
    check(&five, "hell", 0, "");
    check(&five, "hello", 5, "hello");
    check(&five, "hello world", 5, "hello");
}

static void
chunks_end_with_an_empty_one(void **state)
{
    (void)state;
    check(&CHUNKED, "0\r\n\r\n", 5, "");
    check(&CHUNKED, "5\r\nhello\r\n0\r\n\r\nGET", 15, "hello");
    check(&CHUNKED, "3;a=\"b c\"\r\nabc\r\n0A\r\n0123456789\r\n00;x\r\n\r\n", 40, "abc0123456789");
    check(&CHUNKED, "1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\nGET", 21, "a");
    check(&CHUNKED, "5\r\nhello\r\n0\r\n", 0, "");
}

static void
ambiguous_chunks_are_rejected(void **state)
{
    static const char *const bad[] = {
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\n",
        " 1\r\n",
        "1 \r\n",
        "0x1\r\n",
        "1\n",
        "1\rx",
        "1;\x01\r\n",
        "1;a\nb",
        "1000000000000000\r\n",
        "0000000000000001\r\n",
        "1\r\nab\r\n",
        "1\r\na\n",
        "1\r\na\rb",
        "0\r\n\n",
        "0\r\nX: y\n",
        "0\r\nX: y\r\n z\r\n",
        "0\r\n X: y\r\n",
        "0\r\nX: \x7f\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        check(&CHUNKED, bad[i], -1, "");
}

static void
extensions_are_limited(void **state)
{
    char text[ROOM] = "0;";

    (void)state;
    memset(text + 2, 'x', HTTP_CHUNK_EXTENSIONS_MAX - 1);
    memcpy(text + 1 + HTTP_CHUNK_EXTENSIONS_MAX, "\r\n\r\n", 5);
    check(&CHUNKED, text, (int)strlen(text), "");
    memset(text + 2, 'x', HTTP_CHUNK_EXTENSIONS_MAX);
    memcpy(text + 2 + HTTP_CHUNK_EXTENSIONS_MAX, "\r\n\r\n", 5);
    check(&CHUNKED, text, -1, "");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_ends_the_body),
        cmocka_unit_test(chunks_end_with_an_empty_one),
        cmocka_unit_test(ambiguous_chunks_are_rejected),
        cmocka_unit_test(extensions_are_limited),
    };

    return cmocka_run_group_tests_name("body", tests, NULL, NULL);
}
