/* test_store_fault.c: is an error of the store explained, and said often enough? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store/connection/fault.h"

static void
test_an_error_within_a_script_is_found(void **state)
{
    const struct fault *fault = fault_find("ERR Error running script (call to f_0): "
                                           "@user_script:7: -OOM command not allowed when used "
                                           "memory > 'maxmemory'.");

    (void)state;
    assert_non_null(fault);
    assert_false(fault->is_of_server);
    assert_non_null(strstr(fault->hint, "maxmemory"));
    assert_true(fault_find("READONLY You can't write against a read only replica.")->is_of_server);
    assert_non_null(strstr(fault_tail("MOVED 7638 10.0.0.2:6379"), "cluster-enabled no"));
    assert_non_null(strstr(fault_tail("CLUSTERDOWN Hash slot not served"), "cluster-enabled no"));
    assert_null(fault_find("ERR no such key"));
    assert_string_equal(fault_tail("ERR no such key"), "");
}

static void
test_a_kind_is_said_once_for_a_while(void **state)
{
    struct fault_log log = {0};

    (void)state;
    (void)fault_report(&log, "store a batch", "OOM command not allowed");
    (void)fault_report(&log, "store a batch", "OOM command not allowed");
    (void)fault_report(&log, "store acks", "OOM command not allowed");
    (void)fault_report(&log, "store a batch", "READONLY");
    assert_int_equal(log.seen[0].held_back, 1);
    assert_int_equal(log.seen[1].held_back, 0);
    assert_int_equal(log.next, 3);

    log.seen[0].at_us -= 11000000; /* as if it was long ago */
    (void)fault_report(&log, "store a batch", "OOM command not allowed");
    assert_int_equal(log.seen[0].held_back, 0);
}

static void
test_many_kinds_take_each_others_places(void **state)
{
    struct fault_log log = {0};
    char names[3 * FAULT_KINDS][8];

    (void)state;
    for (size_t i = 0; i < 3 * FAULT_KINDS; i++) {
        names[i][0] = (char)('a' + i);
        names[i][1] = '\0';
        (void)fault_report(&log, names[i], "ERR");
    }
    assert_int_equal(log.next, 0);
    assert_string_equal(log.seen[0].what, names[2 * FAULT_KINDS]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_within_a_script_is_found),
        cmocka_unit_test(test_a_kind_is_said_once_for_a_while),
        cmocka_unit_test(test_many_kinds_take_each_others_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
