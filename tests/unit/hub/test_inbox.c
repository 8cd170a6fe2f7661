/* test_inbox.c: a session reads its user's inbox again when needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hub/parts/inbox.h"

static void
test_the_inbox_is_deferred_once(void **state)
{
    struct inbox inbox = {.refill = INBOX_REFILL_NONE};

    (void)state;
    assert_true(inbox_defer(&inbox));
    assert_false(inbox_defer(&inbox));
    assert_int_equal(inbox.refill, INBOX_REFILL_WHEN_ROOM);
    inbox_begin(&inbox);
    assert_string_equal(inbox.at, "0");
    assert_false(inbox_is_deferred(&inbox));
    assert_true(inbox_defer(&inbox));
}

static void
test_a_missed_retry_needs_no_room(void **state)
{
    struct inbox inbox = {.refill = INBOX_REFILL_NONE};

    (void)state;
    inbox_miss(&inbox);
    assert_true(inbox_has_missed(&inbox));
    assert_false(inbox_is_deferred(&inbox));
    assert_true(inbox_defer(&inbox)); /* the session becomes LIVE */
    assert_int_equal(inbox.refill, INBOX_REFILL_NOW);
    inbox_miss(&inbox);
    assert_int_equal(inbox.refill, INBOX_REFILL_NOW);
    inbox_begin(&inbox);
    assert_true(inbox_defer(&inbox));
    inbox_miss(&inbox);
    assert_int_equal(inbox.refill, INBOX_REFILL_NOW);
}

static void
test_a_reconciliation_requires_a_complete_pass(void **state)
{
    struct inbox inbox = {.refill = INBOX_REFILL_NONE};

    (void)state;
    inbox_want_reconcile(&inbox);
    assert_false(inbox_is_reconciling(&inbox));
    inbox_end_reconcile(&inbox); /* the end of an earlier pass */
    inbox_begin(&inbox);
    assert_true(inbox_is_reconciling(&inbox));
    inbox_want_reconcile(&inbox);
    inbox_end_reconcile(&inbox);
    assert_false(inbox_is_reconciling(&inbox));
    inbox_begin(&inbox);
    assert_true(inbox_is_reconciling(&inbox));
    inbox_end_reconcile(&inbox);
    inbox_begin(&inbox);
    assert_false(inbox_is_reconciling(&inbox));
}

static void
test_acks_during_a_pass_are_kept_until_its_end(void **state)
{
    struct inbox inbox = {.refill = INBOX_REFILL_NONE};
    const unsigned char a[16] = {1}, b[16] = {2};

    (void)state;
    inbox_keep_acked(&inbox, a);
    inbox_keep_acked(&inbox, b);
    inbox.is_full = true;
    assert_true(inbox_was_acked(&inbox, a));
    assert_true(inbox_was_acked(&inbox, b));
    inbox_end(&inbox);
    assert_false(inbox_was_acked(&inbox, a));
    assert_false(inbox.is_full);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_inbox_is_deferred_once),
        cmocka_unit_test(test_a_missed_retry_needs_no_room),
        cmocka_unit_test(test_a_reconciliation_requires_a_complete_pass),
        cmocka_unit_test(test_acks_during_a_pass_are_kept_until_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
