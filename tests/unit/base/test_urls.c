/* test_urls.c: is a list of URLs taken apart where one ends and the next begins? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/urls.h"

static void
holds(const char *list, unsigned count, const char *last)
{
    char *url;

    assert_int_equal(urls_count(list), count);
    url = urls_at(list, count - 1);
    assert_string_equal(url, last);
    free(url);
}

static void
test_urls_end_where_another_scheme_begins(void **state)
{
    (void)state;
    holds("redis://h:1", 1, "redis://h:1");
    holds("redis://a:1,redis://b:2/3", 2, "redis://b:2/3");
    holds("redis://a:1,rediss://u:p,q@b:2,unix:///run/x", 3, "unix:///run/x");
    holds("unix:///run/a,b", 1, "unix:///run/a,b");
    holds("redis://a:1,b:2", 1, "redis://a:1,b:2"); /* for its reader to refuse */
    holds("redis://a:1,", 1, "redis://a:1,");
    holds("", 1, "");
}

static void
test_each_of_them_is_found(void **state)
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
        cmocka_unit_test(test_urls_end_where_another_scheme_begins),
        cmocka_unit_test(test_each_of_them_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
