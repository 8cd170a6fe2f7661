/* test_http_head.c: request heads are parsed, and ambiguous heads are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "wire/http_head.h"

#define MAX 4096

static enum rc
parse(const char *text, size_t len, size_t max, struct http_head *ret_head, const char **ret_why)
{
    *ret_head = (struct http_head){0};
    return http_head_parse(ret_head, text, len, max, ret_why);
}

static enum rc
check(const char *text, struct http_head *ret_head, const char **ret_why)
{
    size_t len = strlen(text);
    char *exact = malloc(len + (len == 0)); /* so that ASan detects a read past the end */
    enum rc rc;

    assert_non_null(exact);
    memcpy(exact, text, len);
    rc = parse(exact, len, MAX, ret_head, ret_why);
    ret_head->bytes = text;
    free(exact);
    return rc;
}

static void
valid_heads_are_accepted(void **state)
{
    static const char *const good[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST /v1/ack?x=y HTTP/1.1\r\nhost:x\r\nContent-Length: 3\r\n\r\nabc",
        "PATCH /a HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX-Tab: a\tb\r\nX-8: \xc3\xa9\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\t 3 \r\n\r\nabc",
        "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: a\r\nX-Forwarded-For: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nHostess: y\r\nHos: z\r\n\r\n\n\n",
    };
    struct http_head head;
    const char *why = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(check(good[i], &head, &why), RC_OK);
    assert_null(why);
    assert_int_equal(check(good[2], &head, &why), RC_OK);
    assert_int_equal(head.method, HTTP_POST);
    assert_int_equal(head.target_len, strlen("/v1/ack?x=y"));
    assert_int_equal(head.path_len, strlen("/v1/ack"));
    assert_memory_equal(head.bytes + head.target, "/v1/ack?x=y", head.target_len);
    assert_int_equal(head.content_length, 3);
    assert_true(head.is_1_1);
    assert_int_equal(check(good[1], &head, &why), RC_OK);
    assert_false(head.is_1_1);
    assert_int_equal(check(good[3], &head, &why), RC_OK);
    assert_int_equal(head.method, HTTP_OTHER);
}

/* `host` NULL: too long. */
static void
check_target(const char *line, const char *target, size_t path_len, const char *host)
{
    struct http_head head;
    const char *why = NULL;
    char text[512];
    char *found = NULL;
    enum rc rc;

    snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: y.example\r\n\r\n", line);
    assert_int_equal(check(text, &head, &why), RC_OK);
    assert_int_equal(head.target_len, strlen(target));
    assert_memory_equal(head.bytes + head.target, target, head.target_len);
    assert_int_equal(head.path_len, path_len);
    rc = http_head_host(&head, strlen("xx.example:80"), &found);
    assert_int_equal(rc, host != NULL ? RC_OK : RC_LIMIT);
    if (host != NULL)
        assert_string_equal(found, host);
    free(found);
}

static void
authority_of_an_absolute_target_replaces_host(void **state)
{
    (void)state;
    check_target("GET /http://x/", "/http://x/", 10, "y.example");
    check_target("GET http://x/a/b?c=/d", "/a/b?c=/d", 4, "x");
    check_target("GET HTTPS://x.example:80/a?b", "/a?b", 2, "x.example:80");
    check_target("GET http://[::1]:80//a", "//a", 3, "[::1]:80");
    check_target("GET http://x?a=http://z/b", "?a=http://z/b", 0, "x");
    check_target("GET http://x", "", 0, "x");
    check_target("OPTIONS *", "", 0, "y.example");
    check_target("GET http://xxx.example:80/", "/", 1, NULL);
}

static void
one_empty_line_before_a_request_is_ignored(void **state)
{
    struct http_head head;
    const char *why = NULL;
    char *value = NULL;

    (void)state;
    check_target("\r\nPOST /a?b=c", "/a?b=c", 2, "y.example");
    check_target("\r\nGET http://x/a", "/a", 2, "x");
    assert_int_equal(check("\r\nGET /?b=c HTTP/1.1\r\nHost: x\r\n\r\n", &head, &why), RC_OK);
    assert_int_equal(http_head_argument(&head, "b=", 8, &value), RC_OK);
    assert_string_equal(value, "c");
    free(value);
}

/* Parses a head with these headers. */
static void
parse_fields(const char *fields, char text[512], struct http_head *ret_head)
{
    const char *why = NULL;

    snprintf(text, 512, "GET /?a=b HTTP/1.1\r\nHost: x\r\n%s\r\n", fields);
    assert_int_equal(parse(text, strlen(text), MAX, ret_head, &why), RC_OK);
}

static bool
is_websocket(const char *fields)
{
    struct http_head head;
    char text[512];

    parse_fields(fields, text, &head);
    return http_head_is_websocket(&head);
}

static bool
is_last(const char *fields)
{
    struct http_head head;
    char text[512];

    parse_fields(fields, text, &head);
    return head.is_last;
}

static void
connection_options_are_recognized(void **state)
{
    (void)state;
    assert_false(is_last(""));
    assert_false(is_last("Connection: keep-alive\r\n"));
    assert_false(is_last("Connection: closed, a close\r\n"));
    assert_true(is_last("Connection: close\r\n"));
    assert_true(is_last("CONNECTION: keep-alive ,\tClose\r\n"));
    assert_true(is_last("Connection: a\r\nConnection: close\r\n"));
}

#define TOO_LONG "too long"

/* Frees the value. */
static void
check_value(enum rc rc, char *value, const char *expected)
{
    assert_int_equal(rc, expected != NULL && strcmp(expected, TOO_LONG) == 0 ? RC_LIMIT : RC_OK);
    if (expected == NULL || rc != RC_OK)
        assert_null(value);
    else
        assert_string_equal(value, expected);
    free(value);
}

static void
check_text(const struct http_head *head, const char *name, size_t max, const char *expected)
{
    char *text = NULL;
    enum rc rc = http_head_text(head, name, max, &text);

    check_value(rc, text, expected);
}

static void
headers_are_found(void **state)
{
    struct http_head head;
    char text[512];

    (void)state;
    parse_fields("X-Forwarded-For: a, b\r\nA:\r\nx-forwarded-for:\t c \r\nX-Forwarded: d\r\n", text,
                 &head);
    check_text(&head, "x-forwarded-for", 100, "a, b,c");
    check_text(&head, "x-forwarded-for", 6, "a, b,c");
    check_text(&head, "x-forwarded-for", 5, TOO_LONG);
    check_text(&head, "x-forwarded", 100, "d");
    check_text(&head, "a", 100, NULL);
    check_text(&head, "b", 100, NULL);
    assert_true(http_head_has(&head, "a"));
    assert_false(http_head_has(&head, "b"));
    assert_true(http_head_is(&head, "host", "X"));
    assert_false(http_head_is(&head, "host", "x1"));
}

static void
check_argument(const char *query, const char *name, const char *expected)
{
    struct http_head head;
    const char *why = NULL;
    char text[512];
    char *value = NULL;
    enum rc rc;

    snprintf(text, sizeof(text), "GET /a%s HTTP/1.1\r\nHost: x\r\n\r\n", query);
    assert_int_equal(parse(text, strlen(text), MAX, &head, &why), RC_OK);
    rc = http_head_argument(&head, name, 8, &value);
    check_value(rc, value, expected);
}

static void
check_segment(const char *path, const char *expected)
{
    struct http_head head;
    const char *why = NULL;
    char text[512];
    char *value = NULL;
    enum rc rc;

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    assert_int_equal(parse(text, strlen(text), MAX, &head, &why), RC_OK);
    rc = http_head_segment(&head, "/users/", "/end", 8, &value);
    check_value(rc, value, expected);
}

static void
a_segment_of_the_path_is_decoded(void **state)
{
    (void)state;
    check_segment("/users/u1/end", "u1");
    check_segment("/users/u1/end?a=/users/", "u1");
    check_segment("/users/a%2fb%20+/end", "a/b +");
    check_segment("/users/%2e%2e/end", "..");
    check_segment("/users/.../end", "...");
    check_segment("/users/123456789/end", TOO_LONG);
    check_segment("/users//end", NULL);
    check_segment("/users/end", NULL);
    check_segment("/users/./end", NULL);
    check_segment("/users/../end", NULL);
    check_segment("/users/a/b/end", NULL);
    check_segment("/users/a/ends", NULL);
    check_segment("/user/a/end", NULL);
    check_segment("/", NULL);
}

static void
check_form(const char *body, const char *expected)
{
    char *value = NULL;
    enum rc rc = http_form_argument(body, strlen(body), "a=", 8, &value);

    check_value(rc, value, expected);
}

static void
forms_are_decoded(void **state)
{
    char *value = NULL;

    (void)state;
    assert_int_equal(http_form_argument(NULL, 0, "a=", 8, &value), RC_OK);
    assert_null(value);
    assert_int_equal(http_form_argument("a=\0", 3, "a=", 8, &value), RC_OK);
    assert_null(value);
    check_form("", NULL);
    check_form("b=1", NULL);
    check_form("a=", "");
    check_form("b=1&a=x%2C+&a=2", "x, ");
    check_form("a=123456789", TOO_LONG);
    check_form("a=%", NULL);
    check_form("a=%2", NULL);
    check_form("a=%zz", NULL);
    check_form("a=%00", NULL);
    check_form("a=1&b=%", NULL);
}

static void
arguments_are_decoded(void **state)
{
    (void)state;
    check_argument("", "a=", NULL);
    check_argument("?", "a=", NULL);
    check_argument("?a", "a=", NULL);
    check_argument("?a=", "a=", "");
    check_argument("?b=1&a=2&a=3", "a=", "2");
    check_argument("?&&a=x%2c+%C3%a9%26", "a=", "x, \xc3\xa9&");
    check_argument("?a=1?2", "a=", "1?2");
    check_argument("?ba=1", "a=", NULL);
    check_argument("?a=123456789", "a=", TOO_LONG);
}

static void
upgrades_to_websocket_are_recognized(void **state)
{
    (void)state;
    assert_true(is_websocket("Upgrade: websocket\r\nConnection: Upgrade\r\n"));
    assert_true(is_websocket("connection:keep-alive,upgrade\r\nUPGRADE:\tWebSocket \r\n"));
    assert_true(is_websocket("Connection: a\r\nConnection: x, Upgrade\r\nUpgrade: websocket\r\n"));
    assert_false(is_websocket(""));
    assert_false(is_websocket("Connection: Upgrade\r\n"));
    assert_false(is_websocket("Upgrade: websocket\r\n"));
    assert_false(is_websocket("Upgrade: websocket\r\nConnection: upgraded, keep-alive\r\n"));
    assert_false(is_websocket("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"));
    assert_false(is_websocket("Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n"));
    assert_false(is_websocket("Upgrade: foo websocket\r\nConnection: Upgrade\r\n"));
    assert_false(is_websocket("Upgrade:\r\nConnection: Upgrade\r\n"));
}

static bool
has_plain_path(const char *target)
{
    struct http_head head = {.len = 0};
    const char *why = NULL;
    char text[256];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target);
    assert_int_equal(parse(text, strlen(text), MAX, &head, &why), RC_OK);
    return http_head_has_plain_path(&head);
}

static void
paths_that_parsers_normalize_are_not_plain(void **state)
{
    static const char *const plain[] = {"/", "/?a/../b;c=//%41", "/v1/rows?", "/a-b_c~d/e.f/g.",
                                        "/a/"};
    static const char *const others[] = {"//",
                                         "//v1/rows",
                                         "/v1//rows",
                                         "/v1/../v1/rows",
                                         "/./a",
                                         "/a/..",
                                         "/a/.",
                                         "/v1/rows;x?a=b",
                                         "/%76"
                                         "1",
                                         "/a%2fb",
                                         "/a+b",
                                         "/a#b",
                                         "/a\\b",
                                         "/a:b",
                                         "/a\xc3\xa9"};

    (void)state;
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        assert_true(has_plain_path(plain[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(has_plain_path(others[i]));
}

/* Each head is rejected with an error that contains the second string. */
static void
ambiguous_heads_are_rejected(void **state)
{
    static const char *const bad[][2] = {
        {"\r\n\r\n", "empty"},
        {"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "empty"},
        {"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "carriage return"},
        {"GET /?a=%00 HTTP/1.1\r\nHost: x\r\n\r\n", "%00"},
        {"GET /?a=b%0a HTTP/1.1\r\nHost: x\r\n\r\n", "encoded control"},
        {"GET /?a=%1F HTTP/1.1\r\nHost: x\r\n\r\n", "encoded control"},
        {"GET /?a=%7F HTTP/1.1\r\nHost: x\r\n\r\n", "encoded control"},
        {"GET / HTTP/1.1\nHost: x\n\n", "carriage return"},
        {"GET / HTTP/1.1\r\nHost: x\n\r\n", "carriage return"},
        {"GET / HTTP/1.1\r\nHost: x\rY: z\r\n\r\n", "control"},
        {"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", "line folding"},
        {"GET / HTTP/1.1\r\n Host: x\r\n\r\n", "line folding"},
        {"GET / HTTP/1.1\r\nHost: x\r\nX : a\r\n\r\n", "whitespace before"},
        {"GET / HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n", "without a name"},
        {"GET / HTTP/1.1\r\nHost: x\r\nfoo\r\n\r\n", "without a name"},
        {"GET / HTTP/1.1\r\nHost: x\r\nHOST: y\r\n\r\n", "duplicate"},
        {"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nauthorization: b\r\n\r\n", "duplicate"},
        {"GET / HTTP/1.1\r\nHost: x\r\nOrigin: a\r\nOrigin: b\r\n\r\n", "duplicate"},
        {"GET / HTTP/1.1\r\nHost: x\r\nOrigin:\r\n\r\n", "empty Origin"},
        {"GET / HTTP/1.1\r\nHost: x\r\nORIGIN: \t \r\n\r\n", "empty Origin"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
         "duplicate"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         "both Content-Length"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5x\r\n\r\n", "not a number"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n", "not a number"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1 2\r\n\r\n", "not a number"},
        {"GET / HTTP/1.1\r\nHost: x\r\ncontent-length:\r\n\r\n", "not a number"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "not chunked"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n", "not chunked"},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "not chunked"},
        {"GET / HTTP/1.1\r\n\r\n", "Host"},
        {"GET http://x/ HTTP/1.1\r\n\r\n", "Host"},
        {"GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "duplicate"},
        {"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET http://:80/a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET http://u@x/a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET http://x\\@z/a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET http://x#/a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET http:/a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET ftp://x/a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"OPTIONS *a HTTP/1.1\r\nHost: x\r\n\r\n", "neither a path"},
        {"GET http://x/?a=%00 HTTP/1.1\r\nHost: x\r\n\r\n", "%00"},
        {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1"},
        {"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", "HTTP/1.1"},
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", "HTTP/1.1"},
        {"GET /\r\nHost: x\r\n\r\n", "HTTP/1.1"},
        {"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", "control"},
        {" GET / HTTP/1.1\r\nHost: x\r\n\r\n", "method"},
        {"G\xc3\xa9T / HTTP/1.1\r\nHost: x\r\n\r\n", "method"},
        {"\x16\x03\x01\r\n", "method"},
    };
    struct http_head head;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *why = "nothing";

        if (check(bad[i][0], &head, &why) != RC_BAD || strstr(why, bad[i][1]) == NULL)
            fail_msg("%s: %s, not %s", bad[i][0], why, bad[i][1]);
    }
}

static void
incomplete_heads_require_more_bytes(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\nX-Y: z\r\n\r\n";
    struct http_head head;
    const char *why;

    static const char more[] = "GET / HTTP/1.1\r\nHost: x\r\nX-Y: z\r\n\r\nGET /";

    (void)state;
    assert_int_equal(parse(more, sizeof(more) - 1, MAX, &head, &why), RC_OK);
    assert_int_equal(head.len, sizeof(text) - 1); /* the bytes after the head are not counted */
    for (size_t len = 0; len < sizeof(text) - 1; len++)
        assert_int_equal(parse(text, len, MAX, &head, &why), RC_AGAIN);
    head = (struct http_head){0}; /* complete lines are not parsed again */
    for (size_t len = 0; len < sizeof(text) - 1; len++)
        assert_int_equal(http_head_parse(&head, text, len, MAX, &why), RC_AGAIN);
    assert_int_equal(http_head_parse(&head, text, sizeof(text) - 1, MAX, &why), RC_OK);
    assert_int_equal(parse(text, sizeof(text) - 1, MAX, &head, &why), RC_OK);
    /* a head of exactly `max` bytes is valid, even if a body follows */
    assert_int_equal(parse(text, sizeof(text) - 1, sizeof(text) - 1, &head, &why), RC_OK);
    assert_int_equal(parse(text, sizeof(text) - 1, sizeof(text) - 2, &head, &why), RC_LIMIT);
}

static void
bytes_and_lines_of_a_head_are_limited(void **state)
{
    static char text[MAX + 64];
    struct http_head head;
    const char *why;
    char *at = text;

    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, "GET /", 5);
    assert_int_equal(parse(text, MAX - 1, MAX, &head, &why), RC_AGAIN);
    assert_int_equal(parse(text, MAX, MAX, &head, &why), RC_LIMIT);
    assert_int_equal(parse(text, sizeof(text), MAX, &head, &why), RC_LIMIT);
    at = stpcpy(at, "GET / HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < HTTP_HEAD_LINES_MAX - 2; i++)
        at = stpcpy(at, "X: y\r\n");
    memcpy(at, "\r\n", 3);
    assert_int_equal(check(text, &head, &why), RC_OK);
    memcpy(at, "X: y\r\n\r\n", 9);
    assert_int_equal(check(text, &head, &why), RC_LIMIT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_heads_are_accepted),
        cmocka_unit_test(upgrades_to_websocket_are_recognized),
        cmocka_unit_test(connection_options_are_recognized),
        cmocka_unit_test(authority_of_an_absolute_target_replaces_host),
        cmocka_unit_test(one_empty_line_before_a_request_is_ignored),
        cmocka_unit_test(headers_are_found),
        cmocka_unit_test(arguments_are_decoded),
        cmocka_unit_test(a_segment_of_the_path_is_decoded),
        cmocka_unit_test(forms_are_decoded),
        cmocka_unit_test(paths_that_parsers_normalize_are_not_plain),
        cmocka_unit_test(ambiguous_heads_are_rejected),
        cmocka_unit_test(incomplete_heads_require_more_bytes),
        cmocka_unit_test(bytes_and_lines_of_a_head_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
