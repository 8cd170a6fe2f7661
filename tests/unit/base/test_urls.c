/* test_urls.c: a URL is split into its servers, regardless of its password, and parsed. */
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

static void
test_urls_are_parsed(void **state)
{
    struct url address;

    (void)state;
    assert_int_equal(url_read("redis://127.0.0.1:7000/3", &address), RC_OK);
    assert_string_equal(address.host, "127.0.0.1");
    assert_int_equal(address.port, 7000);
    assert_int_equal(address.database, 3);
    assert_int_equal(url_read("redis://relay:p%40ss:w@[::1]:6380", &address), RC_OK);
    assert_string_equal(address.user, "relay");
    assert_string_equal(address.password, "p@ss:w");
    assert_string_equal(address.host, "::1");
    assert_int_equal(url_read("redis://:secret@keydb", &address), RC_OK);
    assert_string_equal(address.user, "");
    assert_string_equal(address.password, "secret");
    assert_int_equal(address.port, 6379);
    assert_int_equal(url_read("unix:///batch/keydb.sock", &address), RC_OK);
    assert_string_equal(address.path, "/batch/keydb.sock");
    assert_false(address.tls);
    assert_int_equal(url_read("rediss://h:7001", &address), RC_OK);
    assert_string_equal(address.host, "h");
    assert_true(address.tls);
}

static void
test_invalid_urls_are_rejected(void **state)
{
    static const char *const bad[] = {
        "",           "redis://",          "http://x",         "redis://h:70000", "redis://h:x",
        "unix://rel", "redis://h/notanum", "redis://[::1",     "redis://a%zz@h",  "redis://h:1/-2",
        "rediss://",  "redis://%00@h:1",   "redis://%4\x10@h", "redis://[::1]x"};
    struct url address;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (url_read(bad[i], &address) != RC_BAD)
            fail_msg("%s was accepted", bad[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url_of_one_server_is_returned_unchanged),
        cmocka_unit_test(test_servers_of_sentinel_and_cluster_are_returned),
        cmocka_unit_test(test_each_server_is_returned),
        cmocka_unit_test(test_urls_are_parsed),
        cmocka_unit_test(test_invalid_urls_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
