/* test_store_fault.c: error replies of the store get a hint, and their log lines are limited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/rates.h"
#include "store/connection/reply.h"

static void
test_error_within_a_script_has_a_hint(void **state)
{
    const struct fault *fault = fault_find("ERR Error running script (call to f_0): "
                                           "@user_script:7: -OOM command not allowed when used "
                                           "memory > 'maxmemory'.");

    (void)state;
    assert_non_null(fault);
    assert_false(fault->is_of_server);
    assert_non_null(strstr(fault->hint, "maxmemory"));
    assert_true(fault_find("READONLY You can't write against a read only replica.")->is_of_server);
    assert_non_null(strstr(fault_hint("MOVED 7638 10.0.0.2:6379"), "redis+cluster://"));
    assert_non_null(strstr(fault_hint("CLUSTERDOWN Hash slot not served"), "redis+cluster://"));
    assert_non_null(strstr(fault_hint("BUSY Redis is busy running a script."), "SCRIPT KILL"));
    assert_null(fault_hint("BUSYKEY Target key name already exists."));
    assert_null(fault_find("ERR no such key"));
    assert_null(fault_hint("ERR no such key"));
}

static void
test_one_line_per_kind_and_interval(void **state)
{
    struct throttles log = {0};

    (void)state;
    (void)fault_report(&log, "could not store a batch", "OOM command not allowed");
    (void)fault_report(&log, "could not store a batch", "OOM command not allowed");
    (void)fault_report(&log, "could not store acknowledgements", "OOM command not allowed");
    (void)fault_report(&log, "could not store a batch", "READONLY");
    assert_int_equal(log.of[0].throttle.skipped, 1);
    assert_int_equal(log.of[1].throttle.skipped, 0);
    assert_int_equal(log.next, 3);

    log.of[0].throttle.next_us -= 11000000; /* more than 10 s ago */
    (void)fault_report(&log, "could not store a batch", "OOM command not allowed");
    assert_int_equal(log.of[0].throttle.skipped, 0);
}

static void
test_redirections_are_recognized(void **state)
{
    static const char *const redirections[] = {
        "MOVED 7638 10.0.0.2:6379",
        "ASK 7638 10.0.0.2:6379",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN Hash slot not served",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> "
        "replica?)",
        "ERR Error running script (call to f_0): @user_script:30: -READONLY You can't write "
        "against a read only replica.",
        "LOADING Redis is loading the dataset in memory"};
    static const char *const others[] = {"EXECABORT Transaction discarded", "ERR TASK 1",
                                         "OOM command not allowed", "MOVEDX"};

    (void)state;
    for (size_t i = 0; i < sizeof(redirections) / sizeof(redirections[0]); i++)
        assert_true(fault_is_redirection(redirections[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(fault_is_redirection(others[i]));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_within_a_script_has_a_hint),
        cmocka_unit_test(test_one_line_per_kind_and_interval),
        cmocka_unit_test(test_redirections_are_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
