/* test_delivery_reports.c: the store's replies are applied in the order of the reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "hub/hub_private.h"
#include "tests/unit/heads.h"

#define CALLS_MAX 8

bool __wrap_store_replies(const struct store *store);
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
static store_acked *acked; /* of the last call */

enum rc
__wrap_store_ack(struct store *store, const struct store_ack *acks, size_t count, store_acked *done,
                 void *ctx)
{
    (void)store;
    (void)acks;
    (void)count;
    (void)ctx;
    acked = done;
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
__wrap_store_replies(const struct store *store)
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
reply_to(unsigned nth, enum rc rc, enum store_pair state)
{
    calls[nth].done(calls[nth].ctx, rc, rc == RC_OK ? &state : NULL, 1);
}

static struct config config = {.gate = {.slow_bytes = 65536}};
static struct stats stats;
static struct hub hub;
static struct session session;

static void
clear_control(void)
{
    buffer_free(&session_control_queue(&session)->frames);
    session_end_control(&session);
}

static void
join(const char *kind, const char *target)
{
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    assert_true(audience_key((struct bytes){(const unsigned char *)kind, 4},
                             (struct bytes){(const unsigned char *)target, 2}, key, &len));
    groups_join(&session.groups, &hub.audiences, &session, key, len, false);
}

/* A notification that needs an ack, for a group: the store knows whether the user is a target. */
static struct notification *
group_notification(unsigned char number)
{
    unsigned char head[HEAD_FOR_U1];
    struct entry entry = {.id = {number, 0}};

    head_for_u1(head);
    memcpy(head + FRAME_NOTIFICATION_HEAD_SIZE, "TEAM\0\2t1", 8);
    head[FRAME_AT_FLAGS + 1] = FRAME_ACK_REQUIRED;
    head[FRAME_NOTIFICATION_AT_ID + 15] = number;
    head[FRAME_AT_COMMIT_LSN + 7] = number;
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)"{}", 2};
    return notification_new(&entry, false, "e", &entry.id, 1);
}

/* A session with a full in-flight window, and two deferred notifications. */
static int
set_up(void **state)
{
    (void)state;
    call_count = 0;
    hub = (struct hub){.config = &config, .loop = ev_loop_new(EVFLAG_AUTO), .shards = 1};
    ev_timer_init(&hub.repeat, NULL, 0, 1);
    session = (struct session){.state = SESSION_LIVE,
                               .hub = &hub,
                               .is_blocked = true,
                               .inflight = {.size = 0},
                               .client = {.user = "u1", .conn = "test"}};
    join("USER", "u1");
    join("TEAM", "t1");
    for (unsigned char i = 1; i <= 2; i++) {
        struct notification *notification = group_notification(i);

        session_admit(&session, notification);
        notification_unref(notification);
        acks_flush(&hub);
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
            reply_to(i, RC_IO, STORE_PAIR_PENDING);
    acks_free(&hub);
    groups_clear(&session.groups, &hub.audiences);
    outbound_clear(&session.outbound, &hub.queued_bytes);
    free(session.pending.early);
    free(session.row_order);
    ev_loop_destroy(hub.loop);
    return 0;
}

static void
complete_report(unsigned nth, enum rc rc, enum store_pair state)
{
    reply_to(nth, rc, state);
    calls[nth].done = NULL;
}

static void
test_notifications_without_a_pending_ack_are_sent_in_order(void **state)
{
    (void)state;
    complete_report(1, RC_OK, STORE_PAIR_NONE);
    assert_int_equal(session.outbound.count, 0);
    complete_report(0, RC_OK, STORE_PAIR_NONE);
    assert_int_equal(session.outbound.count, 2);
    assert_int_equal(session.outbound.notifications[0]->id.ms, 1);
    assert_int_equal(session.outbound.notifications[1]->id.ms, 2);
}

/* The user does not have to acknowledge the second one, which is in no list: it does not wait. */
static void
test_a_pending_notification_stays_deferred(void **state)
{
    (void)state;
    complete_report(1, RC_OK, STORE_PAIR_NONE);
    complete_report(0, RC_OK, STORE_PAIR_PENDING);
    assert_int_equal(session.outbound.count, 1);
    assert_int_equal(session.outbound.notifications[session.outbound.first]->id.ms, 2);
    assert_int_equal(session.requests.count, 0);
    assert_true(session.has_deferral && session.pending.pass == PASS_DUE);
    assert_int_equal(session.pending.early_count, 1);
}

/* Another device acknowledged it, so it is in the list of ended pairs. */
static void
test_an_acknowledged_notification_stays_deferred(void **state)
{
    (void)state;
    complete_report(0, RC_OK, STORE_PAIR_ACKED);
    complete_report(1, RC_OK, STORE_PAIR_ENDED);
    assert_int_equal(session.outbound.count, 0);
    assert_true(session.has_deferral && session.pending.pass == PASS_DUE);
}

/* The feed stores lost notifications again, so sending some of them now would reorder them. */
static void
test_lost_notifications_are_dropped_without_a_gap(void **state)
{
    (void)state;
    complete_report(0, RC_OK, STORE_PAIR_LOST);
    complete_report(1, RC_OK, STORE_PAIR_LOST);
    assert_int_equal(session.outbound.count, 0);
    assert_int_equal(session.pending.query_count, 0);
    assert_false(session.has_control);
}

static void
offer(unsigned char number)
{
    struct notification *notification = group_notification(number);

    session_offer(&session, notification);
    notification_unref(notification);
    acks_flush(&hub);
}

/* They were read from the former primary, but not offered yet. */
static void
test_later_lost_notifications_are_skipped(void **state)
{
    (void)state;
    hub.newest[0] = (struct entry_id){4, 0};
    complete_report(0, RC_OK, STORE_PAIR_PENDING);
    complete_report(1, RC_OK, STORE_PAIR_LOST);
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
    complete_report(0, RC_OK, STORE_PAIR_PENDING);
    complete_report(1, RC_OK, STORE_PAIR_LOST);
    is_read = false;
    offer(3);
    assert_int_equal(call_count, 3);
}

/* PostgreSQL does not send it again. */
static void
test_a_lost_published_notification_is_sent(void **state)
{
    struct notification *notification = group_notification(3);

    (void)state;
    complete_report(0, RC_OK, STORE_PAIR_NONE);
    complete_report(1, RC_OK, STORE_PAIR_NONE);
    notification->frame.commit_lsn = 0;
    session_admit(&session, notification);
    notification_unref(notification);
    acks_flush(&hub);
    complete_report(2, RC_OK, STORE_PAIR_LOST);
    assert_int_equal(session.outbound.count, 3);
}

/* The notification became a dead letter and was redriven before this relay read either event. */
static void
test_a_redriven_dead_letter_is_reported(void **state)
{
    const char *const ids[] = {"00000000-0000-0000-0000-000000000003"};
    struct notification *notification = group_notification(3);

    (void)state;
    session.pending.pass = PASS_NONE;
    session.inflight.size = 1;
    session_admit(&session, notification);
    session_inflight_written(&session, notification);
    acks_flush(&hub);
    assert_int_equal(call_count, 3);
    notification->is_retry = true;
    session_offer_retry(&session, notification);
    hub_end_gone(&hub, "u1", ids, 1);
    session_inflight_written(&session, notification);
    acks_flush(&hub);
    assert_int_equal(call_count, 4);
    hub_end_gone(&hub, "u1", ids, 1);
    assert_int_equal(session.inflight.count, 0);
    free(session.inflight.entries);
    notification_unref(notification);
}

static void
test_a_failed_report_is_sent_again_in_order(void **state)
{
    (void)state;
    complete_report(0, RC_IO, STORE_PAIR_PENDING);
    assert_int_equal(hub.pair_requests.failed, 1); /* acks wait for the report */
    complete_report(1, RC_OK, STORE_PAIR_NONE);
    assert_int_equal(session.outbound.count, 0);
    (void)hub_send_some(&hub, 0);
    assert_int_equal(call_count, 3);
    complete_report(2, RC_OK, STORE_PAIR_NONE);
    assert_int_equal(session.outbound.count, 2);
    assert_int_equal(session.outbound.notifications[0]->id.ms, 1);
}

/* The maximum number of calls is pending, so the next report waits, and acks wait for it. */
static void
test_acks_wait_for_reports(void **state)
{
    const char *const ids[] = {"00000000-0000-0000-0000-000000000003"};
    struct notification *notification = group_notification(3);

    (void)state;
    ack_calls = 0;
    hub.stats = &stats;
    hub.pair_requests.call_count += 1000;
    session.pending.pass = PASS_NONE;
    session.inflight.size = 1;
    session_admit(&session, notification);
    session_inflight_written(&session, notification);
    hub_ack(&hub, "u1", ids, 1);
    assert_int_equal(call_count, 2);
    assert_int_equal(ack_calls, 0);
    hub.pair_requests.call_count -= 1000;
    acks_flush(&hub);
    assert_int_equal(call_count, 3);
    assert_int_equal(ack_calls, 1);
    free(session.inflight.entries);
    notification_unref(notification);
    clear_control();
}

/* A notification that another session acknowledges while an earlier ack is on its way. */
static struct notification *
acknowledge_elsewhere(unsigned char number)
{
    const char *const earlier[] = {"00000000-0000-0000-0000-000000000009"};
    char text[FRAME_UUID_TEXT + 1];
    struct notification *notification = group_notification(number);

    hub.stats = &stats;
    ack_calls = 0;
    session.inflight.size = 1;
    hub_ack(&hub, "u1", earlier, 1);
    frame_id_text(notification->frame.as.notification.id, text);
    hub_ack(&hub, "u1", &(const char *){text}, 1);
    assert_int_equal(ack_calls, 1);
    clear_control();
    return notification;
}

static void
complete_acks(void)
{
    acked(&hub, RC_OK);
    assert_int_equal(ack_calls, 2);
    assert_int_equal(inflight_free_slots(&session.inflight), 0);
    acked(&hub, RC_OK);
    assert_int_equal(inflight_free_slots(&session.inflight), 1);
}

/* The page or the replay buffer from which it was read is older than the ack. */
static void
test_a_notification_that_was_acknowledged_before_it_was_queued_ends(void **state)
{
    static const char ACKED_3[] =
        "{\"t\":\"acked\",\"ids\":[\"00000000-0000-0000-0000-000000000003\"]}";
    struct notification *notification = acknowledge_elsewhere(3);
    struct session_line line;
    size_t offset = 0;

    (void)state;
    assert_true(session_admit_pending(&session, notification, INFLIGHT_OPEN, true));
    session_inflight_written(&session, notification);
    acks_flush(&hub);
    complete_report(2, RC_OK, STORE_PAIR_PENDING);
    complete_acks();
    assert_int_equal(session.inflight.count, 0);
    assert_true(session_next_control(&session, &offset, &line));
    assert_memory_equal(line.text.at, ACKED_3, sizeof(ACKED_3) - 1);
    clear_control();
    free(session.inflight.entries);
    notification_unref(notification);
}

/* `acked` follows it. */
static void
test_a_notification_that_was_acknowledged_before_it_is_written_ends(void **state)
{
    struct notification *notification = acknowledge_elsewhere(3);

    (void)state;
    assert_true(session_admit_pending(&session, notification, INFLIGHT_OPEN, true));
    complete_acks();
    assert_null(session.control.queue);
    session_inflight_written(&session, notification);
    assert_int_equal(session.inflight.count, 0);
    assert_non_null(session.control.queue);
    clear_control();
    free(session.inflight.entries);
    notification_unref(notification);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_notifications_without_a_pending_ack_are_sent_in_order,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pending_notification_stays_deferred, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_acknowledged_notification_stays_deferred, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_lost_notifications_are_dropped_without_a_gap, set_up,
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
        cmocka_unit_test_setup_teardown(
            test_a_notification_that_was_acknowledged_before_it_was_queued_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_notification_that_was_acknowledged_before_it_is_written_ends, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
