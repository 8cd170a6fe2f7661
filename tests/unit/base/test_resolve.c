/* test_resolve.c: are hosts looked up while the loop goes on, however long it takes? */
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

#include "base/resolve.h"
#include "tests/unit/name_server.h"

/* The name server of the tests, in the place of the library's. */
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

struct asked {
    struct ev_loop *loop;
    int calls;
    size_t count;
    struct resolved found[2];
    char error[128];
};

static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct asked *asked = ctx;

    asked->calls++;
    asked->count = count;
    for (size_t i = 0; i < count && i < 2; i++)
        asked->found[i] = found[i];
    strncpy(asked->error, error, sizeof(asked->error) - 1);
}

static struct asked
ask(const char *const *hosts, size_t count)
{
    struct asked asked = {.loop = ev_loop_new(EVFLAG_AUTO)};

    assert_non_null(resolve_start(asked.loop, hosts, count, on_resolved, &asked));
    ev_run(asked.loop, 0); /* until nothing is watched any more */
    ev_loop_destroy(asked.loop);
    assert_int_equal(asked.calls, 1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left to be waited for */
    assert_int_equal(errno, ECHILD);
    return asked;
}

static void
test_all_that_can_be_found(void **state)
{
    const char *const hosts[] = {"unknown", "two"};
    struct asked asked = ask(hosts, 2);

    (void)state;
    assert_int_equal(asked.count, 2);
    assert_int_equal(asked.found[0].host, 1);
    assert_string_equal(asked.found[0].address, "10.0.0.1");
    assert_string_equal(asked.found[1].address, "10.0.0.2");
    assert_string_equal(asked.error, "");
}

static void
test_nothing_is_found(void **state)
{
    const char *const hosts[] = {"unknown"};
    struct asked asked = ask(hosts, 1);

    (void)state;
    assert_int_equal(asked.count, 0);
    assert_string_equal(asked.error, gai_strerror(EAI_NONAME));
}

static void
test_a_lookup_that_dies(void **state)
{
    const char *const hosts[] = {"dies"};
    struct asked asked = ask(hosts, 1);

    (void)state;
    assert_int_equal(asked.count, 0);
    assert_string_equal(asked.error, "the lookup process ended without a result");
}

static void
stop(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    resolve_stop(timer->data);
    ev_break(loop, EVBREAK_ALL);
}

static void
test_a_silent_server_holds_up_nobody(void **state)
{
    const char *const hosts[] = {"silent"};
    struct asked asked = {.loop = ev_loop_new(EVFLAG_AUTO)};
    ev_timer timer;

    (void)state;
    ev_timer_init(&timer, stop, 0.01, 0.0);
    timer.data = resolve_start(asked.loop, hosts, 1, on_resolved, &asked);
    assert_non_null(timer.data);
    ev_timer_start(asked.loop, &timer);
    ev_run(asked.loop, 0);
    ev_loop_destroy(asked.loop);
    assert_int_equal(asked.calls, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    resolve_stop(NULL);
}

static void
test_what_needs_no_lookup(void **state)
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
        cmocka_unit_test(test_all_that_can_be_found),
        cmocka_unit_test(test_nothing_is_found),
        cmocka_unit_test(test_a_lookup_that_dies),
        cmocka_unit_test(test_a_silent_server_holds_up_nobody),
        cmocka_unit_test(test_what_needs_no_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
