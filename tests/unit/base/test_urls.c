/* test_urls.c: a comma-separated list is split into URLs, even if a URL contains a comma. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/urls.h"

static void
assert_urls(const char *list, unsigned count, const char *last)
{
    char *url;

    assert_int_equal(urls_count(list), count);
    url = urls_at(list, count - 1);
    assert_string_equal(url, last);
    free(url);
}

static void
test_url_ends_before_the_next_scheme(void **state)
{
    (void)state;
    assert_urls("redis://h:1", 1, "redis://h:1");
    assert_urls("redis://a:1,redis://b:2/3", 2, "redis://b:2/3");
    assert_urls("redis://a:1,rediss://u:p,q@b:2,unix:///run/x", 3, "unix:///run/x");
    assert_urls("unix:///run/a,b", 1, "unix:///run/a,b");
    assert_urls("redis://a:1,b:2", 1,
                "redis://a:1,b:2"); /* one invalid URL, rejected later by the URL parser */
    assert_urls("redis://a:1,", 1, "redis://a:1,");
    assert_urls("", 1, "");
}

static void
test_each_url_is_returned(void **state)
{
    const char *const list = "redis://u:p,q@a:1,unix:///x,y,redis://c:3";
    const char *const wanted[] = {"redis://u:p,q@a:1", "unix:///x,y", "redis://c:3"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        char *url = urls_at(list, i);

        assert_string_equal(url, wanted[i]);
        free(url);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url_ends_before_the_next_scheme),
        cmocka_unit_test(test_each_url_is_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
