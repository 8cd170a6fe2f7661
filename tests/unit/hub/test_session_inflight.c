/* test_session_inflight.c: a session sends, defers, retries and reports notifications. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "hub/acks/delivery_reports.h"
#include "hub/delivery/session_inflight.h"
#include "hub/resume/memberships.h"
#include "hub/resume/refill.h"
#include "hub/session/backlog.h"
#include "hub/session/cursors.h"
#include "hub/turn.h"
#include "store/shards/store_private.h"
#include "tests/unit/hub/ack_pending_notification.h"

struct fixture {
    struct store store; /* unavailable */
    struct hub hub;
    struct session session;
    struct notification *notifications[4];
};

/* Another report call is pending, so that no report is sent. */
static int
set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    fixture->hub.store = &fixture->store;
    fixture->hub.loop = ev_default_loop(0);
    fixture->hub.reports.call_count = 1;
    fixture->session = (struct session){.state = SESSION_LIVE,
                                        .hub = &fixture->hub,
                                        .inflight = {.size = 2},
                                        .client = {.user = "u1", .conn = "test"}};
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
test_the_window_is_full_at_its_size(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_true(session_inflight_add(&f->session, f->notifications[1]));
    assert_false(inbox_is_deferred(&f->session.inbox));
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
    assert_true(inbox_is_deferred(&f->session.inbox));
    assert_int_equal(f->hub.deferred_count, 1);
    assert_int_equal(f->hub.reports.count, 1); /* a report checks whether its ack is pending */
    session_inflight_remove(&f->session, f->notifications[1]->frame.as.notification.id);
    /* notifications[2] is older and comes first. */
    assert_false(session_inflight_add(&f->session, f->notifications[3]));
    assert_true(session_inflight_add_from_inbox(&f->session, f->notifications[2]));
    assert_int_equal(f->session.inflight.count, 2);
    assert_false(session_inflight_add_from_inbox(&f->session, f->notifications[3]));
}

static void
test_acks_during_a_pass_are_not_sent_again(void **state)
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
test_a_retry_is_sent_only_if_written_and_missed(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_missed(&f->session, f->notifications[0]); /* still queued: sent once */
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_written(&f->session, f->notifications[0]);
    assert_int_equal(f->hub.reports.count, 1);
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_missed(&f->session, f->notifications[0]);
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_int_equal(f->session.inflight.count, 1);
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_missed(&f->session, f->notifications[3]); /* not in flight */
    assert_int_equal(f->session.inflight.count, 1);
}

static void
test_an_inbox_page_older_than_a_retry_is_ignored(void **state)
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
test_acked_notifications_are_not_reported(void **state)
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
test_reconciling_removes_unconfirmed_entries(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_true(session_inflight_add(&f->session, f->notifications[1]));
    session_inflight_written(&f->session, f->notifications[0]);
    session_inflight_written(&f->session, f->notifications[1]);
    session_inflight_reconcile(&f->session); /* no reconciliation is requested */
    assert_int_equal(f->session.inflight.count, 2);
    f->session.inbox.reconcile = INBOX_RECONCILE_RUNNING;
    inflight_recheck(&f->session.inflight);
    inflight_confirm(&f->session.inflight, f->notifications[1]->frame.as.notification.id);
    session_inflight_reconcile(&f->session);
    assert_int_equal(f->session.inflight.count, 1);
    assert_int_equal(f->session.inflight.entries[0].id[15], 1);
    assert_int_equal(f->hub.reports.count, 3); /* reported again */
    assert_false(inbox_is_reconciling(&f->session.inbox));
}

static void
test_a_reconciliation_requested_during_a_pass_runs_in_the_next(void **state)
{
    struct fixture *f = *state;

    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    session_inflight_written(&f->session, f->notifications[0]);
    f->hub.reports.count = 0; /* as if it had been reported */
    f->session.state = SESSION_INBOX;
    session_reconcile(&f->session);
    session_inflight_reconcile(&f->session); /* the end of an earlier pass */
    assert_int_equal(f->session.inflight.count, 1);
    f->session.state = SESSION_LIVE;
    refill(f);
    assert_int_equal(f->session.state, SESSION_INBOX);
    session_inflight_reconcile(&f->session);
    assert_int_equal(f->session.inflight.count, 0);
    f->hub.reports.count = 1;
}

/* The pending reply may predate the change. */
static void
test_stale_memberships_are_requested_again(void **state)
{
    struct fixture *f = *state;

    groups_want(&f->session.groups);
    f->session.state = SESSION_GROUPING;
    session_reload_groups(&f->session); /* GROUPING already requests memberships */
    assert_true(groups_are_wanted(&f->session.groups));
    for (int i = 0; i < 2; i++) {
        groups_begin_request(&f->session.groups);
        session_reload_groups(&f->session);
        groups_end_request(&f->session.groups, true);
        assert_true(groups_are_wanted(&f->session.groups));
        f->session.state = SESSION_CATCHING_UP;
    }
}

/* The pending request, or the next one, also returns the change. */
static void
test_a_change_before_the_reply_is_requested_again(void **state)
{
    struct fixture *f = *state;
    const struct bytes kind = {(const unsigned char *)"ROLE", 4};
    const struct bytes target = {(const unsigned char *)"admin", 5};

    groups_want(&f->session.groups);
    groups_begin_request(&f->session.groups);
    session_change_group(&f->session, "ROLE:admin", 10, true);
    assert_false(groups_have(&f->session.groups, kind, target));
    assert_false(inbox_is_deferred(&f->session.inbox));
    groups_end_request(&f->session.groups, true);
    assert_true(groups_are_wanted(&f->session.groups));
    groups_begin_request(&f->session.groups);
    groups_end_request(&f->session.groups, true);
    session_change_group(&f->session, "ROLE:admin", 10, true);
    assert_true(groups_have(&f->session.groups, kind, target));
    assert_true(inbox_is_deferred(&f->session.inbox));
    session_change_group(&f->session, "ROLE:admin", 10, false);
    assert_false(groups_have(&f->session.groups, kind, target));
}

static void
test_the_inbox_is_read_after_pending_reports(void **state)
{
    struct fixture *f = *state;

    session_defer_inbox(&f->session);
    f->session.inbox.held_count = 1; /* a report is pending */
    refill(f);
    assert_int_equal(f->session.state, SESSION_LIVE);
    assert_true(f->hub.refill_is_pending);
    f->session.inbox.held_count = 0;
    refill(f);
    assert_int_equal(f->session.state, SESSION_INBOX);
}

/* A poll does not wait for retries, because it may end before the inbox is read again. */
static void
test_a_poll_receives_as_much_as_fits(void **state)
{
    struct fixture *f = *state;

    session_defer_inbox(&f->session);
    f->session.is_poll = true;
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_true(session_inflight_add(&f->session, f->notifications[1]));
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
}

static void
test_a_poll_does_not_overtake_unread_notifications(void **state)
{
    struct fixture *f = *state;

    f->session.is_poll = true;
    f->session.inbox.has_unread = true;
    assert_false(session_inflight_add(&f->session, f->notifications[0]));
    f->session.inbox.has_unread = false;
    assert_true(backlog_is_pending(&f->session));
    assert_false(session_inflight_add(&f->session, f->notifications[1]));
}

/* Adds a notification as if it was read from the inbox. */
static bool
add_from_inbox(struct fixture *f, int nth)
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
test_a_backlog_is_reported_until_it_is_sent(void **state)
{
    struct fixture *f = *state;
    const struct backlog *reported;

    f->session.inflight.size = 1;
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_false(f->session.has_backlog);
    f->session.cursor = cursor(0);
    assert_false(session_inflight_add(&f->session, f->notifications[1]));
    f->session.cursor = cursor(1);
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
    assert_null(backlog_reported(&f->session, cursor(0), NULL));
    reported = backlog_reported(&f->session, cursor(2), NULL);
    assert_non_null(reported);
    assert_int_equal(reported->waiting.count, 2);
    assert_true(cursor_equal(reported->behind, cursor(0)));
    assert_false(reported->is_lost);
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_true(add_from_inbox(f, 1));
    reported = backlog_reported(&f->session, cursor(2), NULL);
    assert_non_null(reported);
    assert_int_equal(reported->waiting.count, 1);
    assert_true(cursor_equal(reported->behind, cursor(1)));
    session_inflight_remove(&f->session, f->notifications[1]->frame.as.notification.id);
    assert_true(add_from_inbox(f, 2));
    assert_null(backlog_reported(&f->session, cursor(2), NULL));
}

/* Later changes of the backlog do not affect what a queued notification reports. */
static void
test_an_overtaking_notification_reports_the_older_backlog(void **state)
{
    struct fixture *f = *state;
    const struct backlog *reported;
    struct notification *queued;

    f->session.inflight.size = 1;
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    f->session.cursor = cursor(0);
    assert_false(session_inflight_add(&f->session, f->notifications[1]));
    /* notifications[3] was queued before the backlog. */
    assert_null(backlog_reported(&f->session, cursor(2), f->notifications[3]));
    queued = session_notification_at(&f->session, f->notifications[3], cursor(3), NULL);
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_true(add_from_inbox(f, 1));
    assert_null(backlog_reported(&f->session, cursor(3), NULL));
    reported = backlog_reported(&f->session, cursor(2), queued);
    assert_non_null(reported);
    assert_int_equal(reported->waiting.count, 1);
    assert_false(reported->is_lost);
    reported =
        backlog_reported(&f->session, cursor(2), f->notifications[1]); /* part of the backlog */
    assert_non_null(reported);
    assert_true(reported->is_lost);
    notification_unref(queued);
}

static void
test_older_inbox_entries_are_not_in_the_backlog(void **state)
{
    struct fixture *f = *state;

    f->session.inflight.size = 1;
    f->session.cursor = cursor(1);
    assert_true(session_inflight_add(&f->session, f->notifications[3]));
    assert_false(session_inflight_add(&f->session, f->notifications[2]));
    session_inflight_remove(&f->session, f->notifications[3]->frame.as.notification.id);
    assert_true(add_from_inbox(f, 1));
    assert_int_equal(f->session.order.backlog->waiting.count, 1);
    f->notifications[3]->is_retry = true; /* sent before */
    assert_false(session_inflight_add(&f->session, f->notifications[3]));
    assert_int_equal(f->session.order.backlog->waiting.count, 1);
}

/* notifications[2] was skipped because the user was not in the group, but it is in the inbox. */
static void
test_an_uncounted_notification_hides_no_loss(void **state)
{
    struct fixture *f = *state;

    f->session.inflight.size = 1;
    f->session.cursor = cursor(0);
    assert_true(session_inflight_add(&f->session, f->notifications[0]));
    assert_false(session_inflight_add(&f->session, f->notifications[3]));
    assert_int_equal(f->session.order.backlog->waiting.count, 1);
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_true(add_from_inbox(f, 2));
    assert_int_equal(f->session.order.backlog->waiting.count, 0);
    assert_true(f->session.order.backlog->is_lost);
}

static void
test_inbox_order_is_kept_when_the_window_is_full(void **state)
{
    struct fixture *f = *state;

    f->session.inflight.size = 1;
    f->session.state = SESSION_INBOX;
    assert_true(add_from_inbox(f, 0));
    assert_false(add_from_inbox(f, 1));
    session_inflight_remove(&f->session, f->notifications[0]->frame.as.notification.id);
    assert_false(add_from_inbox(f, 2));
    inbox_end(&f->session.inbox);
    assert_true(add_from_inbox(f, 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_inbox_page_older_than_a_retry_is_ignored, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_acks_during_a_pass_are_not_sent_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_window_is_full_at_its_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_retry_is_sent_only_if_written_and_missed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_acked_notifications_are_not_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_reconciling_removes_unconfirmed_entries, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_reconciliation_requested_during_a_pass_runs_in_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_poll_receives_as_much_as_fits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_poll_does_not_overtake_unread_notifications, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_backlog_is_reported_until_it_is_sent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_overtaking_notification_reports_the_older_backlog,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_older_inbox_entries_are_not_in_the_backlog, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_uncounted_notification_hides_no_loss, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_inbox_order_is_kept_when_the_window_is_full, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_stale_memberships_are_requested_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_change_before_the_reply_is_requested_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_inbox_is_read_after_pending_reports, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
