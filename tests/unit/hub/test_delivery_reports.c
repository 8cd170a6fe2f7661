/* test_delivery_reports.c: the store's replies are applied in the order of the reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "hub/acks/ack_queue.h"
#include "hub/acks/delivery_reports.h"
#include "hub/acks/user_acks.h"
#include "hub/delivery/offer.h"
#include "hub/delivery/report_queue.h"
#include "hub/delivery/session_inflight.h"
#include "hub/session/backlog.h"
#include "hub/session/gap.h"
#include "hub/session/queue.h"
#include "hub/session/row_order.h"
#include "hub/turn.h"
#include "tests/unit/hub/ack_pending_notification.h"

#define CALLS_MAX 8

bool __wrap_store_is_up(const struct store *store);
bool __wrap_store_acks_wait(const struct store *store, const struct store_ack *ack);
enum rc __wrap_store_report(struct store *store, const struct store_report *reports, size_t count,
                            store_reported *done, void *ctx);

bool __wrap_store_is_read(const struct store *store, unsigned shard);
static bool is_read;

/* Whether the reader reads the server that replies. */
bool
__wrap_store_is_read(const struct store *store, unsigned shard)
{
    (void)store;
    (void)shard;
    return is_read;
}

/* Pending calls, which the test completes in any order, like independent shards. */
static struct {
    store_reported *done;
    void *ctx;
} calls[CALLS_MAX];
static unsigned call_count;

enum rc __wrap_store_ack(struct store *store, const struct store_ack *acks, size_t count,
                         store_acked *done, void *ctx);
static unsigned ack_calls;

enum rc
__wrap_store_ack(struct store *store, const struct store_ack *acks, size_t count, store_acked *done,
                 void *ctx)
{
    (void)store;
    (void)acks;
    (void)count;
    (void)done;
    (void)ctx;
    ack_calls++;
    return RC_OK;
}

/* All shards are available. */
bool
__wrap_store_acks_wait(const struct store *store, const struct store_ack *ack)
{
    (void)store;
    (void)ack;
    return false;
}

bool
__wrap_store_is_up(const struct store *store)
{
    (void)store;
    return true;
}

enum rc
__wrap_store_report(struct store *store, const struct store_report *reports, size_t count,
                    store_reported *done, void *ctx)
{
    (void)store;
    (void)reports;
    assert_int_equal(count, 1);
    assert_in_range(call_count, 0, CALLS_MAX - 1);
    calls[call_count].done = done;
    calls[call_count++].ctx = ctx;
    return RC_OK;
}

static void
reply_to(unsigned nth, enum rc rc, enum store_pending state)
{
    calls[nth].done(calls[nth].ctx, rc, rc == RC_OK ? &state : NULL, 1);
}

static struct config config = {.gate = {.slow_bytes = 65536}};
static struct stats stats;
static struct hub hub;
static struct session session;

static void
join_user(void)
{
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    assert_true(audience_key((struct bytes){(const unsigned char *)"USER", 4},
                             (struct bytes){(const unsigned char *)"u1", 2}, key, &len));
    groups_join(&session.groups, &hub.audiences, &session, key, len, false);
}

/* A session with a full in-flight window, and two queued notifications. */
static int
set_up(void **state)
{
    (void)state;
    call_count = 0;
    hub = (struct hub){.config = &config, .loop = ev_loop_new(EVFLAG_AUTO), .shards = 1};
    ev_timer_init(&hub.retry, NULL, 0, 1);
    session = (struct session){.state = SESSION_LIVE,
                               .hub = &hub,
                               .is_blocked = true,
                               .inflight = {.size = 0},
                               .client = {.user = "u1", .conn = "test"}};
    join_user();
    for (unsigned char i = 1; i <= 2; i++) {
        struct notification *notification = ack_pending_notification(i);

        session_enqueue(&session, notification);
        notification_unref(notification);
        delivery_reports_flush(&hub);
    }
    assert_int_equal(call_count, 2);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    hub.closing = true;
    for (unsigned i = 0; i < call_count; i++)
        if (calls[i].done != NULL)
            reply_to(i, RC_IO, STORE_PENDING);
    delivery_reports_free(&hub);
    groups_clear(&session.groups, &hub.audiences);
    session_clear_queue(&session);
    backlog_free(&session);
    row_order_free(&session);
    ev_loop_destroy(hub.loop);
    return 0;
}

static void
complete_report(unsigned nth, enum rc rc, enum store_pending state)
{
    reply_to(nth, rc, state);
    calls[nth].done = NULL;
}

static void
test_notifications_without_a_pending_ack_are_sent_in_order(void **state)
{
    (void)state;
    complete_report(1, RC_OK, STORE_NOT_PENDING);
    assert_int_equal(session.outbound.count, 0);
    complete_report(0, RC_OK, STORE_NOT_PENDING);
    assert_int_equal(session.outbound.count, 2);
    assert_int_equal(session.outbound.notifications[0]->id.ms, 1);
    assert_int_equal(session.outbound.notifications[1]->id.ms, 2);
}

static void
test_replies_out_of_order_do_not_reorder_notifications(void **state)
{
    (void)state;
    complete_report(1, RC_OK, STORE_NOT_PENDING);
    complete_report(0, RC_OK, STORE_PENDING);
    assert_int_equal(session.outbound.count, 0);
    assert_int_equal(session.requests.count, 0);
}

/* The feed stores lost notifications again, so sending some of them now would reorder them. */
static void
test_lost_notifications_are_dropped_without_a_gap(void **state)
{
    (void)state;
    complete_report(0, RC_OK, STORE_LOST);
    complete_report(1, RC_OK, STORE_LOST);
    assert_int_equal(session.outbound.count, 0);
    assert_false(backlog_is_pending(&session));
    session_lose_backlog(&session);
    assert_null(session.order.backlog);
    assert_false(session.has_control);
}

/* It was read from the inbox and sent while its report waited. */
static void
test_a_lost_notification_leaves_the_backlog_once(void **state)
{
    struct notification *notification = ack_pending_notification(1);

    (void)state;
    notification->score = entry_id_score(notification->id);
    backlog_remove(&session, notification);
    notification_unref(notification);
    complete_report(0, RC_OK, STORE_LOST);
    complete_report(1, RC_OK, STORE_PENDING);
    assert_true(backlog_is_pending(&session));
}

static void
offer(unsigned char number)
{
    struct notification *notification = ack_pending_notification(number);

    session_offer(&session, notification);
    notification_unref(notification);
    delivery_reports_flush(&hub);
}

/* They were read from the former primary, but not offered yet. */
static void
test_later_lost_notifications_are_skipped(void **state)
{
    (void)state;
    hub.newest[0] = (struct entry_id){4, 0};
    complete_report(0, RC_OK, STORE_PENDING);
    complete_report(1, RC_OK, STORE_LOST);
    offer(3);
    offer(4);
    assert_int_equal(call_count, 2);
    offer(5);
    assert_int_equal(call_count, 3);
}

/* The newest notification was read from the new primary, and may follow unread ones. */
static void
test_nothing_of_the_new_primary_is_skipped(void **state)
{
    (void)state;
    hub.newest[0] = (struct entry_id){4, 0};
    is_read = true;
    complete_report(0, RC_OK, STORE_PENDING);
    complete_report(1, RC_OK, STORE_LOST);
    is_read = false;
    offer(3);
    assert_int_equal(call_count, 3);
}

/* PostgreSQL does not send it again. */
static void
test_a_lost_published_notification_is_sent(void **state)
{
    struct notification *notification = ack_pending_notification(3);

    (void)state;
    complete_report(0, RC_OK, STORE_NOT_PENDING);
    complete_report(1, RC_OK, STORE_NOT_PENDING);
    notification->frame.commit_lsn = 0;
    session_enqueue(&session, notification);
    notification_unref(notification);
    delivery_reports_flush(&hub);
    complete_report(2, RC_OK, STORE_LOST);
    assert_int_equal(session.outbound.count, 3);
}

/* The notification became a dead letter and was redriven before this relay read either event. */
static void
test_a_redriven_dead_letter_is_reported(void **state)
{
    const char *const ids[] = {"00000000-0000-0000-0000-000000000003"};
    struct notification *notification = ack_pending_notification(3);

    (void)state;
    session.inbox.refill = INBOX_REFILL_NONE;
    session.inflight.size = 1;
    session_enqueue(&session, notification);
    session_inflight_written(&session, notification);
    delivery_reports_flush(&hub);
    assert_int_equal(call_count, 3);
    notification->is_retry = true;
    session_offer_retry(&session, notification);
    hub_end_acks(&hub, "u1", ids, 1, false);
    session_inflight_written(&session, notification);
    delivery_reports_flush(&hub);
    assert_int_equal(call_count, 4);
    hub_end_acks(&hub, "u1", ids, 1, false);
    assert_int_equal(session.inflight.count, 0);
    free(session.inflight.entries);
    notification_unref(notification);
}

static void
test_a_failed_report_is_sent_again_in_order(void **state)
{
    (void)state;
    complete_report(0, RC_IO, STORE_PENDING);
    assert_true(delivery_reports_wait(&hub)); /* acks wait for the report */
    complete_report(1, RC_OK, STORE_NOT_PENDING);
    assert_int_equal(session.outbound.count, 0);
    (void)hub_send_some(&hub, 0);
    assert_int_equal(call_count, 3);
    complete_report(2, RC_OK, STORE_NOT_PENDING);
    assert_int_equal(session.outbound.count, 2);
    assert_int_equal(session.outbound.notifications[0]->id.ms, 1);
}

/* The maximum number of calls is pending, so the next report waits, and acks wait for it. */
static void
test_acks_wait_for_reports(void **state)
{
    struct notification *notification = ack_pending_notification(3);

    (void)state;
    ack_calls = 0;
    hub.stats = &stats;
    hub.reports.call_count += 1000;
    delivery_report_add(&session, notification);
    acks_add(&hub, "u1", "00000000-0000-0000-0000-000000000003", 0);
    acks_flush(&hub);
    assert_int_equal(call_count, 2);
    assert_int_equal(ack_calls, 0);
    hub.reports.call_count -= 1000;
    acks_flush(&hub);
    assert_int_equal(call_count, 3);
    assert_int_equal(ack_calls, 1);
    acks_free(&hub);
    notification_unref(notification);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_notifications_without_a_pending_ack_are_sent_in_order,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replies_out_of_order_do_not_reorder_notifications,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_notifications_are_dropped_without_a_gap, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_lost_notification_leaves_the_backlog_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_later_lost_notifications_are_skipped, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_of_the_new_primary_is_skipped, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_lost_published_notification_is_sent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_redriven_dead_letter_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failed_report_is_sent_again_in_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_acks_wait_for_reports, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
