/* test_rows_memory.c: the memory of results that a user does not read is limited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/rows/rows_clients.h"

static void
user_who_reads_nothing_is_limited(void **state)
{
    char source[8];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(source, sizeof(source), "t%zu", i);
        add_request(i, "u1", source);
        large_result(next("u1"), "USER");
        expect_done(i, ROWS_OK);
    }
    assert_int_equal(try_request(3, "u1", "t"), ROWS_USER_LIMIT);
    add_request(4, "u2", "t");
    large_result(next("u2"), "USER");
    expect_done(4, ROWS_OK);
    end(&clients[0]);
    add_request(3, "u1", "t");
}

static void
copies_of_results_count_for_the_user(void **state)
{
    (void)state;
    add_request(0, "u1", "t");
    large_result(next("u1"), "USER");
    rows_request_hold(clients[0].request, USER_BYTES);
    assert_int_equal(try_request(1, "u1", "t"), ROWS_USER_LIMIT);
    end(&clients[0]);
    add_request(1, "u1", "t");
}

static void
shared_result_counts_once_for_a_user(void **state)
{
    (void)state;
    make_audience_known("ALL");
    for (size_t i = 0; i < 10; i++)
        add_request(i, "u1", "t");
    large_result(next("u1"), "ALL");
    for (size_t i = 0; i < 10; i++)
        expect_done(i, ROWS_OK);
    for (size_t i = 0; i < 9; i++)
        end(&clients[i]);
    add_request(0, "u1", "t1");
    large_result(next("u1"), "USER");
    add_request(1, "u1", "t2");
    large_result(next("u1"), "USER");
    assert_int_equal(try_request(2, "u1", "t3"), ROWS_USER_LIMIT);
}

static void
queries_wait_while_their_user_reads_nothing(void **state)
{
    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t0");
    add_request(1, "u1", "t1");
    add_request(2, "u1", "t2");
    add_request(3, "u1", "t3");
    add_request(4, "u1", "t");
    for (size_t i = 0; i < 3; i++)
        large_result(next("u1"), "USER");
    expect_none();
    add_request(5, "u2", "t"); /* waits for the same query */
    large_result(next("u1"), "ALL");
    expect_done(4, ROWS_USER_LIMIT);
    assert_true(clients[4].after_ms >= 1000);
    expect_done(5, ROWS_OK);
    expect_none();
    end(&clients[0]);
    large_result(next("u1"), "USER");
    expect_done(3, ROWS_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(user_who_reads_nothing_is_limited),
        CASE(copies_of_results_count_for_the_user),
        CASE(shared_result_counts_once_for_a_user),
        CASE(queries_wait_while_their_user_reads_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
