/* test_resolve.c: hosts are resolved without blocking the event loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/addresses.h"
#include "tests/unit/name_server.h"

/* Overrides the C library's getaddrinfo. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
            struct addrinfo **ret_all)
{
    (void)service;
    (void)hints;
    if (strcmp(host, "silent") == 0)
        pause();
    if (strcmp(host, "dies") == 0)
        raise(SIGKILL);
    if (strcmp(host, "two") != 0)
        return EAI_NONAME;
    *ret_all = address_of("10.0.0.1", address_of("10.0.0.2", NULL));
    return 0;
}

struct lookup {
    struct ev_loop *loop;
    int calls;
    size_t count;
    struct resolved found[2];
    char error[128];
};

static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct lookup *lookup = ctx;

    lookup->calls++;
    lookup->count = count;
    for (size_t i = 0; i < count && i < 2; i++)
        lookup->found[i] = found[i];
    strncpy(lookup->error, error, sizeof(lookup->error) - 1);
}

static struct lookup
look_up(const char *const *hosts, size_t count)
{
    struct lookup lookup = {.loop = ev_loop_new(EVFLAG_AUTO)};

    assert_non_null(resolve_start(lookup.loop, hosts, count, on_resolved, &lookup));
    ev_run(lookup.loop, 0); /* until no watcher is active */
    ev_loop_destroy(lookup.loop);
    assert_int_equal(lookup.calls, 1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child process remains */
    assert_int_equal(errno, ECHILD);
    return lookup;
}

static void
test_all_addresses_are_returned(void **state)
{
    const char *const hosts[] = {"unknown", "two"};
    struct lookup lookup = look_up(hosts, 2);

    (void)state;
    assert_int_equal(lookup.count, 2);
    assert_int_equal(lookup.found[0].host, 1);
    assert_string_equal(lookup.found[0].address, "10.0.0.1");
    assert_string_equal(lookup.found[1].address, "10.0.0.2");
    assert_string_equal(lookup.error, "");
}

static void
test_unknown_host_returns_the_error(void **state)
{
    const char *const hosts[] = {"unknown"};
    struct lookup lookup = look_up(hosts, 1);

    (void)state;
    assert_int_equal(lookup.count, 0);
    assert_string_equal(lookup.error, gai_strerror(EAI_NONAME));
}

static void
test_killed_child_is_an_error(void **state)
{
    const char *const hosts[] = {"dies"};
    struct lookup lookup = look_up(hosts, 1);

    (void)state;
    assert_int_equal(lookup.count, 0);
    assert_string_equal(lookup.error, "lookup process exited without a result");
}

static void
stop(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    resolve_stop(timer->data);
    ev_break(loop, EVBREAK_ALL);
}

static void
test_stop_cancels_a_pending_lookup(void **state)
{
    const char *const hosts[] = {"silent"};
    struct lookup lookup = {.loop = ev_loop_new(EVFLAG_AUTO)};
    ev_timer timer;

    (void)state;
    ev_timer_init(&timer, stop, 0.01, 0.0);
    timer.data = resolve_start(lookup.loop, hosts, 1, on_resolved, &lookup);
    assert_non_null(timer.data);
    ev_timer_start(lookup.loop, &timer);
    ev_run(lookup.loop, 0);
    ev_loop_destroy(lookup.loop);
    assert_int_equal(lookup.calls, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    resolve_stop(NULL);
}

static void
test_addresses_and_paths_need_no_lookup(void **state)
{
    const char *const none[] = {"",    "/run/postgresql", "@abstract", "10.0.0.1",
                                "::1", "fe80::1%eth0"};

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_false(resolve_is_needed(none[i]));
    assert_true(resolve_is_needed("localhost"));
    assert_true(resolve_is_needed("10.example"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_addresses_are_returned),
        cmocka_unit_test(test_unknown_host_returns_the_error),
        cmocka_unit_test(test_killed_child_is_an_error),
        cmocka_unit_test(test_stop_cancels_a_pending_lookup),
        cmocka_unit_test(test_addresses_and_paths_need_no_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
