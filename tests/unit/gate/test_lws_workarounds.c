/* test_lws_workarounds.c: detects and edits heads that libwebsockets would misread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate/net/lws_workarounds.h"
#include "wire/http_head.h"

#define HEAD_MAX 8192

static bool
hides(const char *fields)
{
    char head[512];
    int len = snprintf(head, sizeof(head), "GET / HTTP/1.1\r\n%s\r\n", fields);

    return workaround_has_header_prefix(head, (size_t)len, false);
}

static void
complete_names_hide_no_header(void **state)
{
    (void)state;
    assert_false(hides("Host: x\r\nAccept: y\r\nAuthorization: Bearer z\r\n"));
    assert_false(hides("Host: x\r\nX-Mine: y\r\nAuthorization: Bearer z\r\n"));
}

static void
prefix_of_a_known_name_hides_the_next_header(void **state)
{
    (void)state;
    assert_true(hides("A: y\r\nAuthorization: Bearer z\r\n"));
    assert_true(hides("Acc: y\r\nIdempotency-Key: z\r\n"));
    assert_true(hides("ho: y\r\ntraceparent: z\r\n"));
}

static void
hiding_an_unused_header_is_harmless(void **state)
{
    (void)state;
    assert_false(hides("A: y\r\nX-Mine: z\r\nHost: x\r\n"));
}

static void
prefix_in_the_last_header_hides_the_end(void **state)
{
    (void)state;
    assert_true(hides("Host: x\r\nA: y\r\n"));
}

static void
colon_in_the_value_ends_the_match(void **state)
{
    (void)state;
    assert_false(hides("A: y:z\r\nAuthorization: Bearer z\r\n"));
}

static void
edited_head_hides_no_header(void **state)
{
    char text[] = "GET / HTTP/1.1\r\nHost: x\r\nA: y\r\nAuthorization: Bearer z\r\n"
                  "Connection: Upgrade\r\nUpgrade: h2c\r\nAcc: y\r\n\r\n";
    struct http_head head;
    const char *why = NULL;

    (void)state;
    assert_int_equal(http_head_check(text, sizeof(text) - 1, HEAD_MAX, &head, &why), RC_OK);
    assert_true(workaround_needs_edit(text, &head));
    workaround_edit_head(text, &head);
    assert_false(workaround_has_header_prefix(text, head.len, false));
    assert_non_null(strstr(text, "\r\nXpgrade: h2c\r\n"));
    assert_non_null(strstr(text, "\r\nAuthorization: Bearer z\r\n"));
}

static const char *
problem_over_tls(const char *fields)
{
    char text[512];
    int len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", fields);
    struct http_head head;
    const char *why = NULL;

    assert_int_equal(http_head_check(text, (size_t)len, HEAD_MAX, &head, &why), RC_OK);
    return workaround_unedited_problem(text, &head);
}

static void
head_that_needs_an_edit_is_rejected_over_tls(void **state)
{
    (void)state;
    assert_null(problem_over_tls("Accept: y\r\n"));
    assert_null(problem_over_tls("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
    assert_string_equal(problem_over_tls("Upgrade: h2c\r\n"),
                        "unsupported Upgrade or missing Connection: upgrade");
    assert_string_equal(problem_over_tls("A: y\r\nAuthorization: Bearer z\r\n"),
                        "ambiguous header name: prefix of a known header");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_names_hide_no_header),
        cmocka_unit_test(prefix_of_a_known_name_hides_the_next_header),
        cmocka_unit_test(hiding_an_unused_header_is_harmless),
        cmocka_unit_test(prefix_in_the_last_header_hides_the_end),
        cmocka_unit_test(colon_in_the_value_ends_the_match),
        cmocka_unit_test(edited_head_hides_no_header),
        cmocka_unit_test(head_that_needs_an_edit_is_rejected_over_tls),
    };

    return cmocka_run_group_tests_name("lws_workarounds", tests, NULL, NULL);
}
