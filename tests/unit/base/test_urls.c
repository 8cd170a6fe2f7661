/* test_urls.c: a URL is split into its servers, regardless of its password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/urls.h"

static void
assert_urls(const char *list, enum urls_kind kind, unsigned count, const char *last,
            const char *rest)
{
    char *url;

    assert_int_equal(urls_kind(list), kind);
    assert_int_equal(urls_count(list), count);
    url = urls_at(list, count - 1);
    assert_string_equal(url, last);
    free(url);
    assert_string_equal(urls_rest(list), rest);
}

static void
test_url_of_one_server_is_returned_unchanged(void **state)
{
    static const char *const urls[] = {"redis://h:1", "rediss://u:p,q@b:2/3", "unix:///run/a,b",
                                       "redis://a:1,b:2", ""};

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        assert_urls(urls[i], URLS_SINGLE, 1, urls[i], "");
}

static void
test_servers_of_sentinel_and_cluster_are_returned(void **state)
{
    (void)state;
    assert_urls("redis+cluster://a:1", URLS_CLUSTER, 1, "redis://a:1", "");
    assert_urls("redis+cluster://a:1,[::1]:2", URLS_CLUSTER, 2, "redis://[::1]:2", "");
    assert_urls("rediss+cluster://u:p@a:1,b:2,c:3", URLS_CLUSTER, 3, "rediss://u:p@c:3", "");
    assert_urls("redis+cluster://u:p,q/r@s@a:1,b:2", URLS_CLUSTER, 2, "redis://u:p,q/r@s@b:2", "");
    assert_urls("redis+cluster://a:1,", URLS_CLUSTER, 2, "redis://", "");
    assert_urls("redis+cluster://a:1/0", URLS_CLUSTER, 1, "redis://a:1", "0");
    assert_urls("redis+sentinel://a:1,b:2/main", URLS_SENTINEL, 2, "redis://b:2", "main");
    assert_urls("rediss+sentinel://:p@a:1/main,x", URLS_SENTINEL, 1, "rediss://:p@a:1", "main,x");
    assert_urls("redis+sentinel://a:1", URLS_SENTINEL, 1, "redis://a:1", "");
}

static void
test_each_server_is_returned(void **state)
{
    const char *const list = "redis+cluster://u:p,q@a:1,b:2,c:3";
    const char *const wanted[] = {"redis://u:p,q@a:1", "redis://u:p,q@b:2", "redis://u:p,q@c:3"};

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
        cmocka_unit_test(test_url_of_one_server_is_returned_unchanged),
        cmocka_unit_test(test_servers_of_sentinel_and_cluster_are_returned),
        cmocka_unit_test(test_each_server_is_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
