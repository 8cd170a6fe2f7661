/* test_session_inflight.c: does a window hold, show again and let go of what it should? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "hub/acks/delivery_reports.h"
#include "hub/delivery/session_inflight.h"
#include "hub/resume/groups.h"
#include "hub/resume/refill.h"
#include "hub/session/backlog.h"
#include "hub/session/position.h"
#include "hub/turn.h"
#include "tests/unit/hub/ack_pending_notification.h"

struct fixture {
    struct hub hub;
    struct session session;
    struct notification *notifications[4];
};

/* A call of the store is under way for ever, so nothing is sent to it. */
static int
set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    fixture->hub.loop = ev_default_loop(0);
    fixture->hub.reports.calls = 1;
    fixture->session = (struct session){.state = SESSION_LIVE,
                                        .hub = &fixture->hub,
                                        .inflight = {.size = 2},
                                        .client = {.user = "u1", .name = "test"}};
    for (unsigned char i = 0; i < 4; i++)
        fixture->notifications[i] = ack_pending_notification(i);
    *state = fixture;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fixture = *state;

    ev_idle_stop(fixture->hub.loop, &fixture->hub.more);
    delivery_reports_free(&fixture->hub);
    for (int i = 0; i < 4; i++)
        notification_unref(fixture->notifications[i]);
    free(fixture->session.inflight.entries);
    inbox_end(&fixture->session.inbox);
    backlog_free(&fixture->session);
    free(fixture);
    return 0;
}

static void
refill(struct fixture *f)
{
    session_mark(&f->session, READY_REFILL);
    (void)hub_send_some(&f->hub, 10);
}

static void
test_it_is_full_at_its_size(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_true(session_inflight_add(&f->session, f->notifications[1]));
    assert_false(inbox_is_deferred(&f->session.inbox));
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
    assert_true(inbox_is_deferred(&f->session.inbox));
    assert_int_equal(f->hub.deferred_count, 1);
    assert_int_equal(f->hub.reports.count, 1); /* the store is asked whether it is owed */
    session_inflight_remove(&f->session, f->notifications[1]->frame.as.notification.id);
    assert_false(
        session_inflight_add(&f->session, f->notifications[3])); /* the other one was there first */
    assert_true(session_inflight_add_from_inbox(&f->session, f->notifications[2]));
    assert_int_equal(f->session.inflight.count, 2);
    assert_false(session_inflight_add_from_inbox(&f->session, f->notifications[3]));
}

static void
test_what_is_acked_while_the_inbox_is_read_stays_out(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    f->session.state = SESSION_INBOX;
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_false(session_inflight_add_from_inbox(&f->session, f->notifications[0]));
    assert_true(session_inflight_add_from_inbox(&f->session, f->notifications[1]));
    inbox_end(&f->session.inbox);
    f->session.state = SESSION_LIVE;
    assert_true(session_inflight_add_from_inbox(&f->session, f->notifications[0]));
}

static void
test_it_is_shown_again_only_when_written_and_missed(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_missed(&f->session,
                            f->notifications[0]); /* still queued: that showing is enough */
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_written(&f->session, f->notifications[0]);
    assert_int_equal(f->hub.reports.count, 1);
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_missed(&f->session, f->notifications[0]);
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_int_equal(f->session.inflight.count, 1);
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_missed(&f->session, f->notifications[3]); /* not held: nothing to do */
    assert_int_equal(f->session.inflight.count, 1);
}

static void
test_an_inbox_older_than_a_retry_is_not_taken_for_it(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_written(&f->session, f->notifications[0]);
    session_inflight_missed(&f->session, f->notifications[0]);
    assert_false(session_inflight_add_from_inbox(&f->session, f->notifications[0]));
    f->notifications[0]->is_retry = true;
    assert_true(session_inflight_add_from_inbox(&f->session, f->notifications[0]));
}

static void
test_what_was_acked_meanwhile_is_not_reported(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    session_inflight_written(&f->session, f->notifications[0]);
    assert_int_equal(f->hub.reports.count, 0);
    assert_true(session_inflight_add(&f->session, f->notifications[1]));
    session_inflight_drop(&f->session, f->notifications[1]);
    session_inflight_drop(&f->session, f->notifications[1]);
    assert_int_equal(f->session.inflight.count, 0);
}

static void
test_reconciling_drops_what_is_not_confirmed(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_true(session_inflight_add(&f->session, f->notifications[1]));
    session_inflight_written(&f->session, f->notifications[0]);
    session_inflight_written(&f->session, f->notifications[1]);
    session_inflight_reconcile(&f->session); /* nothing is reconciled */
    assert_int_equal(f->session.inflight.count, 2);
    f->session.inbox.reconcile = INBOX_RECONCILE_RUNNING;
    inflight_recheck(&f->session.inflight);
    inflight_confirm(&f->session.inflight, f->notifications[1]->frame.as.notification.id);
    session_inflight_reconcile(&f->session);
    assert_int_equal(f->session.inflight.count, 1);
    assert_int_equal(f->session.inflight.entries[0].id[15], 1);
    assert_int_equal(f->hub.reports.count, 3); /* the store is told of that one again */
    assert_false(inbox_is_reconciling(&f->session.inbox));
}

static void
test_a_reconciliation_wanted_during_a_reading_is_for_the_next_one(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_written(&f->session, f->notifications[0]);
    f->hub.reports.count = 0; /* as if it were reported: nothing holds up the inbox */
    f->session.state = SESSION_INBOX;
    session_reconcile(&f->session);
    session_inflight_reconcile(&f->session); /* at the end of the inbox, begun before */
    assert_int_equal(f->session.inflight.count, 1);
    f->session.state = SESSION_LIVE;
    refill(f);
    assert_int_equal(f->session.state, SESSION_INBOX);
    session_inflight_reconcile(&f->session);
    assert_int_equal(f->session.inflight.count, 0);
    f->hub.reports.count = 1;
}

/* The answer that is under way may have been made before what the new question is about. */
static void
test_memberships_that_are_asked_for_are_asked_for_again(void **state)
{
    struct fixture *f = *state;

    f->session.state = SESSION_GROUPING;
    session_reload_groups(&f->session);
    assert_int_equal(f->session.groups.state, GROUPS_STALE);
    f->session.state = SESSION_LIVE;
    f->session.groups.state = GROUPS_ASKED;
    session_reload_groups(&f->session);
    assert_int_equal(f->session.groups.state, GROUPS_STALE);
}

static void
test_the_inbox_is_read_after_the_answers_that_come_before_it(void **state)
{
    struct fixture *f = *state;

    session_defer_inbox(&f->session);
    f->session.inbox.held_count = 1; /* of a report under way */
    refill(f);
    assert_int_equal(f->session.state, SESSION_LIVE);
    assert_true(f->hub.refill_is_pending);
    f->session.inbox.held_count = 0;
    refill(f);
    assert_int_equal(f->session.state, SESSION_INBOX);
}

/* A retry that waits does not hold up a poll, which may be over before the inbox is read again. */
static void
test_a_poll_is_shown_what_there_is_room_for(void **state)
{
    struct fixture *f = *state;

    session_defer_inbox(&f->session);
    f->session.is_poll = true;
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_true(session_inflight_add(&f->session, f->notifications[1]));
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
}

static void
test_a_poll_does_not_go_past_what_it_was_not_shown(void **state)
{
    struct fixture *f = *state;

    f->session.is_poll = true;
    f->session.inbox.has_unread = true;
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    f->session.inbox.has_unread = false;
    assert_true(backlog_is_pending(&f->session));
    assert_false(session_inflight_add(&f->session, f->notifications[1]));
}

/* A notification as the inbox gives it. */
static bool
take_from_inbox(struct fixture *f, int nth)
{
    f->notifications[nth]->score = entry_id_score(f->notifications[nth]->id);
    return session_inflight_add_from_inbox(&f->session, f->notifications[nth]);
}

static struct cursor
cursor(uint64_t ms)
{
    return (struct cursor){.shared = {ms, 0}};
}

static void
test_what_found_no_room_is_told_until_it_is_shown(void **state)
{
    struct fixture *f = *state;
    const struct backlog *told;

    f->session.inflight.size = 1;
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_false(f->session.has_backlog);
    f->session.cursor = cursor(0);
    assert_false(session_inflight_add(&f->session, f->notifications[1]));
    f->session.cursor = cursor(1);
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
    assert_null(backlog_reported(&f->session, cursor(0), NULL));
    told = backlog_reported(&f->session, cursor(2), NULL);
    assert_non_null(told);
    assert_int_equal(told->waits.count, 2);
    assert_true(cursor_equal(told->behind, cursor(0)));
    assert_false(told->is_gone);
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_true(take_from_inbox(f, 1));
    told = backlog_reported(&f->session, cursor(2), NULL);
    assert_non_null(told);
    assert_int_equal(told->waits.count, 1);
    assert_true(cursor_equal(told->behind, cursor(1)));
    session_inflight_remove(&f->session, f->notifications[1]->frame.as.notification.id);
    assert_true(take_from_inbox(f, 2));
    assert_null(backlog_reported(&f->session, cursor(2), NULL));
}

/* Whatever became of the backlog since that was queued. */
static void
test_what_overtakes_tells_what_the_overtaken_told(void **state)
{
    struct fixture *f = *state;
    const struct backlog *told;
    struct notification *queued;

    f->session.inflight.size = 1;
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    f->session.cursor = cursor(0);
    assert_false(session_inflight_add(&f->session, f->notifications[1]));
    assert_null(
        backlog_reported(&f->session, cursor(2), f->notifications[3])); /* queued before all that */
    queued = session_notification_at(&f->session, f->notifications[3], cursor(3), NULL);
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_true(take_from_inbox(f, 1));
    assert_null(backlog_reported(&f->session, cursor(3), NULL));
    told = backlog_reported(&f->session, cursor(2), queued);
    assert_non_null(told);
    assert_int_equal(told->waits.count, 1);
    assert_false(told->is_gone);
    told = backlog_reported(&f->session, cursor(2), f->notifications[1]); /* the one that waited */
    assert_non_null(told);
    assert_true(told->is_gone);
    notification_unref(queued);
}

static void
test_what_was_there_before_is_not_of_the_backlog(void **state)
{
    struct fixture *f = *state;

    f->session.inflight.size = 1;
    f->session.cursor = cursor(1);
    assert_true(session_inflight_add(&f->session, f->notifications[3]));
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
    session_inflight_remove(&f->session, f->notifications[3]->frame.as.notification.id);
    assert_true(take_from_inbox(f, 1));
    assert_int_equal(f->session.order.backlog->waits.count, 1);
    f->notifications[3]->is_retry = true; /* a retry of what was shown */
    assert_false(session_inflight_add(&f->session, f->notifications[3]));
    assert_int_equal(f->session.order.backlog->waits.count, 1);
}

/* notifications[2] is in the inbox too, but was skipped: its user was not in its group then. */
static void
test_a_notification_that_was_not_counted_hides_no_loss(void **state)
{
    struct fixture *f = *state;

    f->session.inflight.size = 1;
    f->session.cursor = cursor(0);
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_false(session_inflight_add(&f->session, f->notifications[3]));
    assert_int_equal(f->session.order.backlog->waits.count, 1);
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_true(take_from_inbox(f, 2));
    assert_int_equal(f->session.order.backlog->waits.count, 0);
    assert_true(f->session.order.backlog->is_gone);
}

static void
test_of_an_inbox_nothing_goes_past_what_found_no_room(void **state)
{
    struct fixture *f = *state;

    f->session.inflight.size = 1;
    f->session.state = SESSION_INBOX;
    assert_true(take_from_inbox(f, 0));
    assert_false(take_from_inbox(f, 1));
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_false(take_from_inbox(f, 2));
    inbox_end(&f->session.inbox);
    assert_true(take_from_inbox(f, 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_inbox_older_than_a_retry_is_not_taken_for_it,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_acked_while_the_inbox_is_read_stays_out,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_it_is_full_at_its_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_it_is_shown_again_only_when_written_and_missed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_acked_meanwhile_is_not_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_reconciling_drops_what_is_not_confirmed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_reconciliation_wanted_during_a_reading_is_for_the_next_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_poll_is_shown_what_there_is_room_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_poll_does_not_go_past_what_it_was_not_shown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_found_no_room_is_told_until_it_is_shown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_overtakes_tells_what_the_overtaken_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_there_before_is_not_of_the_backlog, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_notification_that_was_not_counted_hides_no_loss,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_of_an_inbox_nothing_goes_past_what_found_no_room,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memberships_that_are_asked_for_are_asked_for_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_the_inbox_is_read_after_the_answers_that_come_before_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
