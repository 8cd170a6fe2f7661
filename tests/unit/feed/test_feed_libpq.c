/* test_feed_libpq.c: is an error of libpq made one line, without what it repeats? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed_parts.h"

#define REFUSED                                                                                    \
    "connection to server at \"h\", port 5432 failed: FATAL:  password authentication failed"

static void
joins_lines(void **state)
{
    (void)state;
    assert_string_equal(feed_error_line("one\ntwo\n"), "one two");
    assert_string_equal(feed_error_line("one"), "one");
    assert_string_equal(feed_error_line(""), "");
    assert_string_equal(feed_error_line("\n\n"), "");
}

static void
drops_repeated_lines(void **state)
{
    (void)state;
    assert_string_equal(feed_error_line(REFUSED "\n" REFUSED "\n"), REFUSED);
    assert_string_equal(feed_error_line("a\nb\na\n"), "a b");
    assert_string_equal(feed_error_line("a, SSL encryption\na, no encryption\n"),
                        "a, SSL encryption a, no encryption");
    assert_string_equal(feed_error_line("ab\na\n"), "ab a");
}

static void
cuts_long_messages(void **state)
{
    char text[4000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(strlen(feed_error_line(text)), 1023);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_lines),
        cmocka_unit_test(drops_repeated_lines),
        cmocka_unit_test(cuts_long_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
