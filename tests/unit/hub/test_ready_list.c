/* test_ready_list.c: every mark is processed once, in order, and before its session is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hub/hub_private.h"

static struct hub hub;
static struct session sessions[3];

static int
set_up(void **state)
{
    (void)state;
    hub = (struct hub){.loop = ev_default_loop(0)};
    for (size_t i = 0; i < 3; i++)
        sessions[i] = (struct session){.hub = &hub, .state = SESSION_LIVE};
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    ev_idle_stop(hub.loop, &hub.more);
    return 0;
}

static void
test_sessions_leave_in_the_order_of_their_first_mark(void **state)
{
    unsigned reasons = 0;

    (void)state;
    session_mark(&sessions[1], READY_ADVANCE);
    session_mark(&sessions[0], READY_REFILL);
    session_mark(&sessions[1], READY_REFILL);
    assert_ptr_equal(ready_list_pop_step(&hub, &reasons), &sessions[1]);
    assert_int_equal(reasons, READY_REFILL | READY_ADVANCE);
    session_mark(&sessions[1], READY_ADVANCE); /* marked again, after the other sessions */
    assert_ptr_equal(ready_list_pop_step(&hub, &reasons), &sessions[0]);
    assert_int_equal(reasons, READY_REFILL);
    assert_ptr_equal(ready_list_pop_step(&hub, &reasons), &sessions[1]);
    assert_int_equal(reasons, READY_ADVANCE);
    assert_null(ready_list_pop_step(&hub, &reasons));
}

static void
test_marks_to_send_are_separate_from_steps(void **state)
{
    unsigned reasons = 0;

    (void)state;
    session_mark(&sessions[0], READY_SEND);
    session_mark(&sessions[0], READY_ADVANCE);
    session_mark(&sessions[1], READY_SEND);
    session_mark(&sessions[0], READY_SEND);
    assert_ptr_equal(ready_list_pop(&hub), &sessions[0]);
    assert_int_equal(sessions[0].ready, READY_ADVANCE); /* the session is not freed yet */
    assert_ptr_equal(ready_list_pop_step(&hub, &reasons), &sessions[0]);
    assert_int_equal(sessions[0].ready, 0);
    assert_ptr_equal(ready_list_pop(&hub), &sessions[1]);
    assert_null(ready_list_pop(&hub));
}

static void
test_the_loop_does_not_sleep_while_marks_remain(void **state)
{
    (void)state;
    assert_false(ev_is_active(&hub.more));
    session_mark(&sessions[0], READY_ADVANCE);
    assert_true(ev_is_active(&hub.more));
    ev_idle_stop(hub.loop, &hub.more);
    hub_mark(&hub, HUB_FLUSH);
    assert_true(ev_is_active(&hub.more));
    hub_mark(&hub, HUB_REFILL);
    assert_int_equal(hub.ready.work, HUB_FLUSH | HUB_REFILL);
}

static void
test_a_full_socket_is_not_written_to(void **state)
{
    unsigned reasons = 0;

    (void)state;
    sessions[0].is_blocked = true;
    session_mark(&sessions[0], READY_SEND);
    assert_null(ready_list_pop(&hub));
    session_mark(&sessions[0], READY_ADVANCE);
    assert_ptr_equal(ready_list_pop_step(&hub, &reasons), &sessions[0]);
}

static void
test_the_delay_is_measured_with_a_session_that_sends(void **state)
{
    (void)state;
    session_mark(&sessions[0], READY_REFILL);
    assert_null(hub.ready.probe);
    session_mark(&sessions[1], READY_SEND);
    hub.ready.probe_us -= 5000;
    session_mark(&sessions[2], READY_SEND);
    assert_ptr_equal(hub.ready.probe, &sessions[1]);
    (void)ready_list_pop(&hub);
    assert_true(hub.ready.delay_us >= 5000);
    assert_null(hub.ready.probe);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sessions_leave_in_the_order_of_their_first_mark),
        TEST(test_marks_to_send_are_separate_from_steps),
        TEST(test_the_loop_does_not_sleep_while_marks_remain),
        TEST(test_a_full_socket_is_not_written_to),
        TEST(test_the_delay_is_measured_with_a_session_that_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
