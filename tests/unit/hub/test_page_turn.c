/* test_page_turn.c: the sessions of a user read pages in turn, within a budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hub/parts/page_turn.h"

#define RATE 2
#define SECOND_US 1000000
#define BURST (RATE * 60)

/* Reads pages until the budget is spent. */
static void
spend(struct page_budget *budget)
{
    while (page_budget_allows(budget)) {
        page_budget_begin(budget);
        page_budget_end(budget, 0);
    }
}

static void
test_the_budget_is_a_minute_of_the_rate(void **state)
{
    struct page_budget budget;
    int pages = 0;

    (void)state;
    page_budget_open(&budget, RATE, 0);
    assert_true(page_budget_is_idle(&budget, RATE));
    for (; page_budget_allows(&budget); pages++) {
        page_budget_begin(&budget);
        page_budget_end(&budget, 0);
    }
    assert_int_equal(pages, BURST);
    assert_true(page_budget_is_spent(&budget));
    assert_false(page_budget_is_idle(&budget, RATE));
}

static void
test_a_large_page_costs_several_pages(void **state)
{
    struct page_budget budget;

    (void)state;
    page_budget_open(&budget, RATE, 0);
    page_budget_begin(&budget);
    page_budget_end(&budget, PAGE_BUDGET_BYTES);
    assert_int_equal((int)budget.left, BURST - 1);
    page_budget_begin(&budget);
    page_budget_end(&budget, (size_t)5 * PAGE_BUDGET_BYTES);
    assert_int_equal((int)budget.left, BURST - 6);
    page_budget_begin(&budget);
    page_budget_end(&budget, (size_t)BURST * PAGE_BUDGET_BYTES);
    assert_true(page_budget_is_spent(&budget));
}

static void
test_the_budget_is_refilled_at_the_rate(void **state)
{
    struct page_budget budget;

    (void)state;
    page_budget_open(&budget, RATE, 0);
    spend(&budget);
    page_budget_refill(&budget, RATE, SECOND_US / RATE - 1);
    assert_true(page_budget_is_spent(&budget));
    page_budget_refill(&budget, RATE, SECOND_US / RATE + 1);
    assert_false(page_budget_is_spent(&budget));
    page_budget_refill(&budget, RATE, 59 * INT64_C(1000000));
    assert_false(page_budget_is_idle(&budget, RATE));
    page_budget_refill(&budget, RATE, 3600 * INT64_C(1000000));
    assert_true(page_budget_is_idle(&budget, RATE));
    assert_int_equal((int)budget.left, BURST);
}

static void
test_a_user_reads_one_page_at_a_time(void **state)
{
    struct page_budget budget;
    struct page_turn turn = {.state = PAGE_TURN_NONE};

    (void)state;
    page_budget_open(&budget, RATE, 0);
    page_budget_begin(&budget);
    assert_false(page_budget_allows(&budget));
    page_turn_wait(&turn, &budget);
    assert_null(page_turn_grant(&budget));
    assert_false(page_budget_is_awaited(&budget)); /* the session waits for the page */
    page_budget_end(&budget, 0);
    assert_ptr_equal(page_turn_grant(&budget), &turn);
    assert_false(page_budget_allows(&budget)); /* the page is reserved for `turn` */
    assert_true(page_turn_end(&turn, &budget));
    assert_true(page_budget_allows(&budget));
}

static void
test_turns_wait_while_the_budget_is_spent(void **state)
{
    struct page_budget budget;
    struct page_turn turn = {.state = PAGE_TURN_NONE};

    (void)state;
    page_budget_open(&budget, RATE, 0);
    spend(&budget);
    assert_false(page_budget_is_awaited(&budget));
    page_turn_wait(&turn, &budget);
    assert_true(page_budget_is_awaited(&budget));
    assert_null(page_turn_grant(&budget));
    page_budget_refill(&budget, RATE, SECOND_US);
    assert_ptr_equal(page_turn_grant(&budget), &turn);
    assert_false(page_budget_is_awaited(&budget));
}

static void
test_turns_are_granted_in_order(void **state)
{
    struct page_budget budget;
    struct page_turn turns[3] = {{.state = PAGE_TURN_NONE}};

    (void)state;
    page_budget_open(&budget, RATE, 0);
    for (int i = 0; i < 3; i++) {
        page_turn_wait(&turns[i], &budget);
        assert_false(page_turn_is_none(&turns[i]));
    }
    assert_true(page_turn_leave(&turns[1], &budget)); /* the session ends */
    assert_true(page_turn_is_none(&turns[1]));
    assert_ptr_equal(page_turn_grant(&budget), &turns[0]);
    assert_null(page_turn_grant(&budget));
    assert_false(page_turn_end(&turns[2], &budget));
    assert_false(page_turn_leave(&turns[0], &budget));
    assert_true(page_turn_end(&turns[0], &budget));
    assert_true(page_turn_is_none(&turns[0]));
    page_turn_wait(&turns[0], &budget); /* waits again, after the other sessions */
    assert_ptr_equal(page_turn_grant(&budget), &turns[2]);
    assert_true(page_turn_end(&turns[2], &budget));
    assert_ptr_equal(page_turn_grant(&budget), &turns[0]);
}

static void
test_a_budget_with_turns_is_not_idle(void **state)
{
    struct page_budget budget;
    struct page_turn turn = {.state = PAGE_TURN_NONE};

    (void)state;
    page_budget_open(&budget, RATE, 0);
    page_turn_wait(&turn, &budget);
    assert_false(page_budget_is_idle(&budget, RATE));
    assert_ptr_equal(page_turn_grant(&budget), &turn);
    assert_false(page_budget_is_idle(&budget, RATE));
    assert_true(page_turn_end(&turn, &budget));
    assert_true(page_budget_is_idle(&budget, RATE));
    page_budget_begin(&budget);
    page_budget_refill(&budget, RATE, SECOND_US);
    assert_false(page_budget_is_idle(&budget, RATE));
    page_budget_end(&budget, 0);
    assert_true(page_budget_is_idle(&budget, RATE));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_budget_is_a_minute_of_the_rate),
        cmocka_unit_test(test_a_large_page_costs_several_pages),
        cmocka_unit_test(test_the_budget_is_refilled_at_the_rate),
        cmocka_unit_test(test_a_user_reads_one_page_at_a_time),
        cmocka_unit_test(test_turns_wait_while_the_budget_is_spent),
        cmocka_unit_test(test_turns_are_granted_in_order),
        cmocka_unit_test(test_a_budget_with_turns_is_not_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
