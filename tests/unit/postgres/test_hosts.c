/* test_hosts.c: hosts are resolved to the addresses and ports that libpq receives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ev.h>
#include <stdio.h>
#include <string.h>

#include "postgres/connection.h"
#include "tests/unit/name_server.h"

/* Overrides the C library's getaddrinfo. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
            struct addrinfo **ret_all)
{
    (void)service;
    (void)hints;
    if (strcmp(host, "one") == 0)
        *ret_all = address_of("10.0.1.1", NULL);
    else if (strcmp(host, "two") == 0)
        *ret_all = address_of("10.0.0.1", address_of("10.0.0.2", NULL));
    else
        return EAI_NONAME;
    return 0;
}

struct lookup {
    int calls;
    bool is_found;
    char text[256]; /* "host|hostaddr|port"; "-" for an unset value */
    char error[128];
};

static const char *
or_dash(const char *text)
{
    return text != NULL ? text : "-";
}

static void
on_hosts(void *ctx, const struct postgres_hosts_found *found, const char *error)
{
    struct lookup *lookup = ctx;

    lookup->calls++;
    lookup->is_found = found != NULL;
    if (found != NULL)
        snprintf(lookup->text, sizeof(lookup->text), "%s|%s|%s", or_dash(found->host),
                 or_dash(found->hostaddr), or_dash(found->port));
    snprintf(lookup->error, sizeof(lookup->error), "%s", error);
}

static struct lookup
find(const char *conninfo)
{
    struct lookup lookup = {.calls = 0};
    struct postgres_hosts hosts = {
        .loop = ev_loop_new(EVFLAG_AUTO), .done = on_hosts, .ctx = &lookup};

    postgres_hosts_find(&hosts, conninfo, 0);
    ev_run(hosts.loop, 0);
    assert_int_equal(lookup.calls, 1);
    ev_loop_destroy(hosts.loop);
    postgres_hosts_end(&hosts);
    postgres_hosts_free(&hosts);
    return lookup;
}

static void
test_each_host_has_its_addresses(void **state)
{
    (void)state;
    assert_string_equal(find("host=one dbname=app").text, "one|10.0.1.1|-");
    assert_string_equal(find("host=two,one port=7").text,
                        "two,two,one|10.0.0.1,10.0.0.2,10.0.1.1|7,7,7");
    assert_string_equal(find("host=two,/run/x,10.0.0.9,one port=1,2,3,4").text,
                        "two,two,/run/x,10.0.0.9,one|10.0.0.1,10.0.0.2,,,10.0.1.1|1,1,2,3,4");
    assert_string_equal(find("postgresql://u@one:7,[::1]:8/app").text, "one,::1|10.0.1.1,|7,8");
}

static void
test_unknown_hosts_are_skipped(void **state)
{
    struct lookup lookup = find("host=unknown,other");

    (void)state;
    assert_false(lookup.is_found);
    assert_string_equal(lookup.error, gai_strerror(EAI_NONAME));
    assert_string_equal(find("host=unknown,one port=1,2").text, "one|10.0.1.1|2");
}

static void
test_other_conninfo_is_passed_to_libpq(void **state)
{
    const char *const left[] = {"dbname=app",           "host=/run/postgresql",
                                "host=10.0.0.9,::1",    "host=one hostaddr=10.9.9.9",
                                "service=app host=one", "host=one,two port=1,2,3",
                                "no conninfo",          "host=one,one,one,one,one,one,one,one,one"};

    (void)state;
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        assert_string_equal(find(left[i]).text, "-|-|-");
    assert_int_equal(setenv("PGHOSTADDR", "10.9.9.9", 1), 0);
    assert_string_equal(find("host=one").text, "-|-|-");
    assert_int_equal(unsetenv("PGHOSTADDR"), 0);
}

static void
test_recent_result_is_cached(void **state)
{
    struct lookup lookup = {.calls = 0};
    struct postgres_hosts hosts = {
        .loop = ev_loop_new(EVFLAG_AUTO), .done = on_hosts, .ctx = &lookup};

    (void)state;
    postgres_hosts_find(&hosts, "host=one port=7", 60000000);
    assert_int_equal(lookup.calls, 0); /* not cached yet */
    ev_run(hosts.loop, 0);
    postgres_hosts_find(&hosts, "host=one port=7", 60000000);
    assert_int_equal(lookup.calls, 2);
    assert_string_equal(lookup.text, "one|10.0.1.1|7");
    hosts.found_us -= 61000000;
    postgres_hosts_find(&hosts, "host=unknown", 60000000);
    assert_int_equal(lookup.calls, 2);
    ev_run(hosts.loop, 0);
    assert_false(lookup.is_found);
    postgres_hosts_find(&hosts, "host=one", 60000000); /* failures are not cached */
    assert_int_equal(lookup.calls, 3);
    postgres_hosts_end(&hosts);
    postgres_hosts_free(&hosts);
    ev_loop_destroy(hosts.loop);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_host_has_its_addresses),
        cmocka_unit_test(test_unknown_hosts_are_skipped),
        cmocka_unit_test(test_other_conninfo_is_passed_to_libpq),
        cmocka_unit_test(test_recent_result_is_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
