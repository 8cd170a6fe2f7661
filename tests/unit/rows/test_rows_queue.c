/*
 * test_rows_queue.c: users share only the queries of rules for ALL, and users are served
 * round-robin.
 */
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
one_request_receives_its_result(void **state)
{
    struct rows_query *query;

    (void)state;
    add_request(0, "u1", "t");
    assert_int_equal(stats.values[STAT_ROWS_WAITING], 1);
    query = next("u1");
    assert_string_equal(rows_query_wanted(query)->source, "t");
    assert_string_equal(rows_query_wanted(query)->rule, "default");
    assert_int_equal(stats.values[STAT_ROWS_WAITING], 0);
    expect_none();
    result(query, "USER");
    expect_done(0, ROWS_OK);
}

static void
identical_requests_of_a_user_share_a_query(void **state)
{
    (void)state;
    make_audience_known("USER");
    add_request(0, "u1", "t");
    add_request(1, "u1", "t");
    add_request(2, "u2", "t");
    result(next("u1"), "USER");
    expect_done(0, ROWS_OK);
    expect_done(1, ROWS_OK);
    assert_int_equal(clients[2].results, 0);
    result(next("u2"), "USER");
    expect_done(2, ROWS_OK);
    assert_int_equal(stats.values[STAT_ROWS_SHARED], 1);
}

static void
all_users_share_a_query_for_all(void **state)
{
    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    add_request(2, "u3", "other");
    result(next("u1"), "ALL");
    expect_done(0, ROWS_OK);
    expect_done(1, ROWS_OK);
    result(next("u3"), "ALL");
    expect_done(2, ROWS_OK);
}

/* Only the snapshot of a query shows which groups its user is in. */
static void
users_of_a_group_rule_share_no_query(void **state)
{
    static const char *const audiences[] = {"USER", "STRUCTURE", "STRUCTURE+ROLE"};

    for (size_t i = 0; i < sizeof(audiences) / sizeof(audiences[0]); i++) {
        struct rows_query *queries[2];

        set_up(state);
        make_audience_known(audiences[i]);
        add_request(0, "u1", "t");
        add_request(1, "u2", "t");
        queries[0] = next("u1");
        queries[1] = next("u2");
        result(queries[0], audiences[i]);
        expect_done(0, ROWS_OK);
        assert_int_equal(clients[1].results, 0);
        result(queries[1], audiences[i]);
        expect_done(1, ROWS_OK);
        tear_down(state);
    }
}

/* After its audience became known, the rule was replaced by a rule for single users. */
static void
result_for_another_audience_is_not_shared(void **state)
{
    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    result(next("u1"), "USER");
    expect_done(0, ROWS_OK);
    assert_int_equal(clients[1].results, 0);
    result(next("u2"), "USER");
    expect_done(1, ROWS_OK);
}

static void
result_of_an_ended_request_is_not_shared_with_another_audience(void **state)
{
    struct rows_query *query;

    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    query = next("u1");
    end(&clients[0]);
    result(query, "USER");
    assert_int_equal(clients[1].results, 0);
    result(next("u2"), "USER");
    expect_done(1, ROWS_OK);
}

/* 1000 simultaneous requests for a rule with ALL need two queries. */
static void
first_query_of_a_rule_runs_alone(void **state)
{
    struct rows_query *query;

    (void)state;
    for (size_t i = 0; i < 10; i++) {
        char user[8];

        snprintf(user, sizeof(user), "u%zu", i);
        add_request(i, user, "t");
    }
    query = next("u0");
    expect_none();
    result(query, "ALL");
    expect_done(0, ROWS_OK);
    result(next("u1"), "ALL");
    for (size_t i = 1; i < 10; i++)
        expect_done(i, ROWS_OK);
    expect_none();
}

static void
query_with_the_same_key_runs_once_at_a_time(void **state)
{
    struct rows_query *query;

    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    query = next("u1");
    add_request(1, "u2", "t"); /* the snapshot must not be older than the request */
    expect_none();
    result(query, "ALL");
    assert_int_equal(clients[1].results, 0);
    result(next("u2"), "ALL");
    expect_done(1, ROWS_OK);
}

static void
users_alternate(void **state)
{
    static const char *const turns[] = {"busy", "u2", "u3", "busy", "u2", "busy"};
    char source[8];

    (void)state;
    for (size_t i = 0; i < 10; i++) {
        snprintf(source, sizeof(source), "t%zu", i);
        add_request(i, "busy", source);
    }
    add_request(10, "u2", "t20");
    add_request(11, "u3", "t30");
    add_request(12, "u2", "t21");
    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++)
        result(next(turns[i]), "USER");
}

static void
requests_are_limited_per_user_and_in_total(void **state)
{
    char source[8], user[8];
    size_t count = 0;

    (void)state;
    for (; count < ROWS_PER_USER_MAX; count++) {
        snprintf(source, sizeof(source), "t%zu", count);
        add_request(count, "u1", source);
    }
    assert_int_equal(try_request(count, "u1", "t"), ROWS_USER_LIMIT);
    result(next("u1"), "USER");
    assert_int_equal(try_request(count, "u1", "t"), ROWS_USER_LIMIT); /* the query has not ended */
    end(&clients[0]);
    add_request(0, "u1", "t");
    for (; queue.waiting_count < 30; count++) {
        snprintf(user, sizeof(user), "v%zu", count);
        add_request(count, user, "t");
    }
    assert_int_equal(try_request(CLIENTS_MAX - 1, "late", "t"), ROWS_BUSY);
    assert_int_equal(stats.values[STAT_ROWS_BUSY], 3);
}

static void
old_snapshot_is_queried_again_later(void **state)
{
    struct rows_query *query;

    (void)state;
    clients[0].needs = 7;
    add_request(0, "u1", "t");
    add_request(1, "u1", "t");
    query = next("u1");
    result_at(query, "USER", "7:9:7", 1000);
    assert_int_equal(clients[0].results, 0);
    expect_done(1, ROWS_OK);
    assert_null(rows_queue_next(&queue, 1000));
    query = rows_queue_next(&queue, 1000000);
    assert_non_null(query);
    result_at(query, "USER", "8:9:", 1000000);
    expect_done(0, ROWS_OK);
    assert_int_equal(stats.values[STAT_ROWS_REPEATED], 1);
}

static void
old_snapshots_end_at_the_deadline(void **state)
{
    struct rows_query *query;

    (void)state;
    clients[0].needs = 7;
    add_request(0, "u1", "t");
    result_at(next("u1"), "USER", "7:9:7", 1000);
    query = rows_queue_next(&queue, WAIT_US - 1);
    result_at(query, "USER", "7:9:7", WAIT_US);
    expect_done(0, ROWS_STALE);
    assert_true(clients[0].after_ms >= 1000);
    end(&clients[0]);
    add_request(0, "u1", "t");
    result_at(next("u1"), "USER", "7:9:7", 1000);
    rows_queue_expire(&queue, ROWS_BUSY, WAIT_US);
    expect_done(0, ROWS_STALE);
}

static void
waiting_requests_expire(void **state)
{
    (void)state;
    add_request(0, "u1", "t");
    add_request(1, "u1", "t");
    add_request(2, "u2", "t");
    clients[0].ends = 1; /* ends while expired requests are processed */
    rows_queue_expire(&queue, ROWS_LOST, WAIT_US - 1);
    assert_int_equal(clients[0].results, 0);
    rows_queue_expire(&queue, ROWS_LOST, WAIT_US);
    expect_done(0, ROWS_LOST);
    assert_int_equal(clients[1].results, 0);
    expect_done(2, ROWS_LOST);
    assert_true(clients[2].after_ms >= 1000);
    assert_int_equal(stats.values[STAT_ROWS_LOST], 2);
}

static void
denial_applies_only_to_the_requester(void **state)
{
    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    rows_queue_fail(&queue, next("u1"), ROWS_DENIED, NULL, 0);
    expect_done(0, ROWS_DENIED);
    assert_int_equal(clients[0].after_ms, 0);
    assert_int_equal(clients[1].results, 0);
    rows_queue_fail(&queue, next("u2"), ROWS_DENIED, NULL, 0);
    expect_done(1, ROWS_DENIED);
}

static struct rows_result *
new_error(const char *header)
{
    struct rows_result *result = rows_result_new(10, USER_BYTES, &held);

    assert_int_equal(rows_result_add(result, header, strlen(header)), RC_OK);
    return result;
}

/* Otherwise one user could end the sharing of a query, or show others that the rule exists. */
static void
error_of_a_condition_applies_only_to_the_requester(void **state)
{
    struct rows_result *result = new_error("{\"error\":107,\"text\":\"column \\\"a\\\"\"}");
    char text[ROWS_ERROR_TEXT_MAX];

    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    rows_queue_fail(&queue, next("u1"), ROWS_INVALID, result, 0);
    expect_done(0, ROWS_INVALID);
    assert_string_equal(rows_error_text(ROWS_INVALID, clients[0].request->result, "t", "r", text),
                        "column \"a\"");
    assert_int_equal(clients[0].after_ms, 0);
    assert_int_equal(clients[1].results, 0);
    assert_int_equal(stats.values[STAT_GATE_PROTOCOL_ERRORS], 1);
    rows_queue_fail(&queue, next("u2"), ROWS_INVALID, result, 0);
    expect_done(1, ROWS_INVALID);
    add_request(2, "u1", "t");
    add_request(3, "u2", "t"); /* the audience is still known */
    result_at(next("u1"), "ALL", "5:5:", 0);
    expect_done(3, ROWS_OK);
    rows_result_unref(result);
}

/* Adds a request, which must not join a query. */
static void
expect_separate(size_t i, struct rows_conditions of_request)
{
    size_t waiting = HASH_COUNT(queue.waiting);

    conditions = of_request;
    add_request(i, "u1", "t");
    assert_int_equal(HASH_COUNT(queue.waiting), waiting + 1);
}

static void
only_equal_conditions_share_a_query(void **state)
{
    static char a[] = "{\"a\":1}", b[] = "{\"a\":2}", names[] = "[\"a\"]", one[] = "[1]";
    const struct rows_conditions each[] = {{0},
                                           {.where = a},
                                           {.where = b},
                                           {.order = names},
                                           {.after = one},
                                           {.where = names},
                                           {.limit = 5},
                                           {.limit = 50},
                                           {.is_count = true},
                                           {.where = a, .is_count = true},
                                           {.where = a, .order = names, .after = one, .limit = 5}};
    const size_t count = sizeof(each) / sizeof(each[0]);

    (void)state;
    make_audience_known("ALL");
    for (size_t i = 0; i < count; i++)
        expect_separate(i, each[i]);
    for (size_t i = 0; i < count; i++) {
        conditions = each[i];
        add_request(count + i, "u2", "t");
    }
    assert_int_equal(HASH_COUNT(queue.waiting), count);
    for (size_t i = 0; i < count; i++)
        result_at(next("u1"), "ALL", "5:5:", 0);
    for (size_t i = 0; i < 2 * count; i++)
        expect_done(i, ROWS_OK);
}

/* The text may be freed after the call. */
static void
conditions_are_copied(void **state)
{
    char where[] = "{\"a\":1}";
    struct rows_query *query;

    (void)state;
    conditions = (struct rows_conditions){.where = where, .limit = 7};
    add_request(0, "u1", "t");
    memset(where, 'x', sizeof(where) - 1);
    query = next("u1");
    assert_string_equal(rows_query_wanted(query)->conditions.where, "{\"a\":1}");
    assert_int_equal(rows_query_wanted(query)->conditions.limit, 7);
    result_at(query, "USER", "5:5:", 0);
    expect_done(0, ROWS_OK);
}

static void
other_errors_apply_to_all_requests(void **state)
{
    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    rows_queue_fail(&queue, next("u1"), ROWS_TOO_MANY, NULL, 0);
    expect_done(0, ROWS_TOO_MANY);
    expect_done(1, ROWS_TOO_MANY);
}

static void
locked_table_is_queried_again_until_the_deadline(void **state)
{
    struct rows_query *query;

    (void)state;
    add_request(0, "u1", "t");
    rows_queue_postpone(&queue, next("u1"), 1000);
    assert_null(rows_queue_next(&queue, 1000));
    query = rows_queue_next(&queue, 1000 + 50000);
    assert_non_null(query);
    rows_queue_postpone(&queue, query, 51000);
    assert_null(rows_queue_next(&queue, 51000 + 50000)); /* the delay is doubled */
    rows_queue_expire(&queue, ROWS_BUSY, WAIT_US);
    expect_done(0, ROWS_LOCKED);
}

static void
lost_query_is_repeated_once(void **state)
{
    (void)state;
    add_request(0, "u1", "t");
    rows_queue_repeat(&queue, next("u1"), 1000);
    assert_int_equal(clients[0].results, 0);
    rows_queue_repeat(&queue, rows_queue_next(&queue, 1000), 2000);
    rows_queue_expire(&queue, ROWS_LOST, 2000);
    expect_done(0, ROWS_LOST);
}

static void
queries_of_one_source_leave_a_connection_to_others(void **state)
{
    struct rows_query *queries[3];

    (void)state;
    make_audience_known("USER");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    add_request(2, "u3", "t");
    add_request(3, "u4", "t");
    queries[0] = next("u1");
    queries[1] = next("u2");
    queries[2] = next("u3");
    expect_none();
    add_request(4, "u5", "other");
    result(next("u5"), "USER");
    result(queries[0], "USER");
    queries[0] = next("u4");
    for (size_t i = 0; i < 3; i++)
        result(queries[i], "USER");
    for (size_t i = 0; i < 5; i++)
        expect_done(i, ROWS_OK);
}

static void
only_connection_serves_any_source(void **state)
{
    (void)state;
    queue.limits.connections = 1;
    add_request(0, "u1", "t");
    result(next("u1"), "USER");
    expect_done(0, ROWS_OK);
}

static void
source_with_a_stuck_query_is_rejected(void **state)
{
    struct rows_query *query, *other;

    (void)state;
    make_audience_known("USER");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    add_request(2, "u3", "t");
    query = next("u1");
    other = next("u2");
    rows_queue_abandon(&queue, query);
    expect_done(0, ROWS_TIMED_OUT);
    assert_true(clients[0].after_ms >= 1000);
    expect_none();
    assert_int_equal(try_request(3, "u4", "t"), ROWS_TIMED_OUT);
    assert_int_equal(stats.values[STAT_ROWS_TIMED_OUT], 2);
    assert_int_equal(stats.values[STAT_ROWS_STUCK], 1);
    result(other, "USER"); /* the query started before the request */
    expect_done(1, ROWS_OK);
    add_request(4, "u5", "other");
    result(next("u5"), "USER");
    rows_queue_release(&queue, query);
    assert_int_equal(stats.values[STAT_ROWS_STUCK], 0);
    result(next("u3"), "USER");
    expect_done(2, ROWS_OK);
    add_request(3, "u4", "t");
    result(next("u4"), "USER");
}

static void
requests_can_end_before_their_stuck_query(void **state)
{
    struct rows_query *query;

    (void)state;
    add_request(0, "u1", "t");
    query = next("u1");
    end(&clients[0]);
    rows_queue_abandon(&queue, query);
    assert_int_equal(clients[0].results, 0);
    rows_queue_release(&queue, query);
}

static void
requests_can_end_at_any_time(void **state)
{
    struct rows_query *query;

    (void)state;
    make_audience_known("ALL");
    add_request(0, "u1", "t");
    end(&clients[0]); /* while waiting */
    expect_none();
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    end(&clients[0]); /* while it has the turn */
    query = next("u2");
    end(&clients[1]); /* while its query runs */
    result(query, "ALL");
    add_request(0, "u1", "t");
    add_request(1, "u2", "t");
    clients[0].ends = 1; /* in the callback of another request */
    result(next("u1"), "ALL");
    expect_done(0, ROWS_OK);
    assert_int_equal(clients[1].results, 0);
    clients[0].ends = 0; /* in the request's callback */
    end(&clients[0]);
    add_request(0, "u1", "t");
    result(next("u1"), "ALL");
    assert_null(clients[0].request);
}

static void
known_rules_are_limited(void **state)
{
    char source[16];

    (void)state;
    for (unsigned i = 0; i < 2 * KNOWN_RULES_MAX; i++) {
        snprintf(source, sizeof(source), "t%u", i);
        add_request(0, "u1", source);
        result(next("u1"), "ALL");
        end(&clients[0]);
        assert_true(HASH_COUNT(queue.rules) <= KNOWN_RULES_MAX);
    }
}

static void
delay_grows_with_the_queue(void **state)
{
    int64_t idle_ms, busy_ms;

    (void)state;
    idle_ms = rows_queue_after_ms(&queue, ROWS_BUSY);
    for (int i = 0; i < 50; i++)
        rows_queue_measure(&queue, 4000000);
    add_request(0, "u1", "a");
    add_request(1, "u2", "b");
    add_request(2, "u3", "c");
    busy_ms = rows_queue_after_ms(&queue, ROWS_BUSY);
    assert_in_range(idle_ms, 1000, 2000);
    assert_in_range(busy_ms, 3500, 8000);
    assert_in_range(rows_queue_after_ms(&queue, ROWS_TIMED_OUT), 10000, 20000);
    assert_int_equal(rows_queue_after_ms(&queue, ROWS_DENIED), 0);
}

static void
errors_of_the_server_are_classified(void **state)
{
    static const struct {
        const char *sqlstate;
        enum rows_status status;
    } cases[] = {{"42501", ROWS_FAILED},    {"54000", ROWS_TOO_MANY}, {"54001", ROWS_FAILED},
                 {"57014", ROWS_TIMED_OUT}, {"57P01", ROWS_LOST},     {"40001", ROWS_LOST},
                 {"53300", ROWS_BUSY},      {"55P03", ROWS_LOCKED},   {"42883", ROWS_FAILED},
                 {"42P01", ROWS_FAILED},    {"22P05", ROWS_DENIED},   {NULL, ROWS_LOST}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(rows_status_of(cases[i].sqlstate), cases[i].status);
    assert_int_equal(rows_error_of(ROWS_DENIED)->code, 103);
    assert_int_equal(rows_error_of(ROWS_TOO_MANY)->code, 113);
    assert_int_equal(rows_error_of(ROWS_LOST)->code, 111);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_request_receives_its_result),
        CASE(identical_requests_of_a_user_share_a_query),
        CASE(all_users_share_a_query_for_all),
        CASE(users_of_a_group_rule_share_no_query),
        CASE(result_for_another_audience_is_not_shared),
        CASE(result_of_an_ended_request_is_not_shared_with_another_audience),
        CASE(first_query_of_a_rule_runs_alone),
        CASE(query_with_the_same_key_runs_once_at_a_time),
        CASE(users_alternate),
        CASE(requests_are_limited_per_user_and_in_total),
        CASE(old_snapshot_is_queried_again_later),
        CASE(old_snapshots_end_at_the_deadline),
        CASE(waiting_requests_expire),
        CASE(denial_applies_only_to_the_requester),
        CASE(error_of_a_condition_applies_only_to_the_requester),
        CASE(only_equal_conditions_share_a_query),
        CASE(conditions_are_copied),
        CASE(other_errors_apply_to_all_requests),
        CASE(locked_table_is_queried_again_until_the_deadline),
        CASE(lost_query_is_repeated_once),
        CASE(queries_of_one_source_leave_a_connection_to_others),
        CASE(only_connection_serves_any_source),
        CASE(source_with_a_stuck_query_is_rejected),
        CASE(requests_can_end_before_their_stuck_query),
        CASE(requests_can_end_at_any_time),
        CASE(known_rules_are_limited),
        CASE(delay_grows_with_the_queue),
        CASE(errors_of_the_server_are_classified),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
