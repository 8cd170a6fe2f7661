/* test_libpq.c: libpq errors are converted to one line without repetitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "postgres/connection.h"

#define LOGIN_FAILED                                                                               \
    "connection to server at \"h\", port 5432 failed: FATAL:  password authentication failed"

static void
lines_are_joined(void **state)
{
    (void)state;
    assert_string_equal(postgres_error_line("one\ntwo\n"), "one two");
    assert_string_equal(postgres_error_line("one"), "one");
    assert_string_equal(postgres_error_line("refused\n\tIs the server running?\n"),
                        "refused Is the server running?");
    assert_string_equal(postgres_error_line(""), "");
    assert_string_equal(postgres_error_line("\n\n"), "");
}

static void
repeated_lines_are_dropped(void **state)
{
    (void)state;
    assert_string_equal(postgres_error_line(LOGIN_FAILED "\n" LOGIN_FAILED "\n"), LOGIN_FAILED);
    assert_string_equal(postgres_error_line("a\nb\na\n"), "a b");
    assert_string_equal(postgres_error_line("a, SSL encryption\na, no encryption\n"),
                        "a, SSL encryption a, no encryption");
    assert_string_equal(postgres_error_line("ab\na\n"), "ab a");
}

static void
long_messages_are_truncated(void **state)
{
    char text[4000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(strlen(postgres_error_line(text)), 1023);
}

static void
first_matching_hint_is_returned(void **state)
{
    (void)state;
    assert_string_equal(
        postgres_error_hint("42883", "ERROR:  function clairon.live_rows() does not exist"),
        "update the extension clairon in this database");
    assert_string_equal(postgres_error_hint("42883", "ERROR:  function f() does not exist"), "");
    assert_string_equal(postgres_error_hint(NULL, "too many clients already"),
                        "raise max_connections");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_joined),
        cmocka_unit_test(repeated_lines_are_dropped),
        cmocka_unit_test(long_messages_are_truncated),
        cmocka_unit_test(first_matching_hint_is_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
