/*
 * test_session_queue.c: each frame is sent completely, once and in order, regardless of how few
 * bytes the socket accepts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "hub/hub_private.h"
#include "tests/unit/hub/queued_notifications.h"

static void
test_headers_of_websocket_frames(void **state)
{
    const size_t lens[] = {0, 1, 125, 126, 65535, 65536, 1000000};
    unsigned char frame[WS_TEXT_HEAD_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
        size_t head_len = ws_text_header(lens[i], frame + sizeof(frame));

        assert_int_equal(head_len, lens[i] < 126 ? 2 : lens[i] < 65536 ? 4 : 10);
        assert_int_equal(ws_frame_len(frame + sizeof(frame) - head_len), head_len + lens[i]);
    }
}

static void
test_control_frames_are_sent_first(void **state)
{
    (void)state;
    queue_notification(1, FRAME_PRIORITY_NORMAL);
    session_send_control(&session, SESSION_LINE_CONTROL, "{}", 2, NULL);
    session_send_control(&session, SESSION_LINE_CONTROL, "[]", 2, NULL);
    assert_false(hub_send_some(&hub, 10));
    assert_string_equal(sent_text(), "{}\n[] " MSG("1-0", "1"));
    assert_int_equal(stats.values[STAT_HUB_DELIVERED], 1);
    assert_int_equal(fake.calls, 1);
}

/* A transport without WebSocket frames; `left`: the lines that it accepts. */
struct lines {
    char text[512];
    size_t len;
    int left;
};

static bool
fake_send_line(void *socket, const struct session_line *line)
{
    struct lines *to = socket;

    if (to->left == 0)
        return false;
    to->left--;
    to->len += (size_t)snprintf(to->text + to->len, sizeof(to->text) - to->len, "%d %.*s %.*s\n",
                                (int)line->kind, (int)line->text.len, (const char *)line->text.at,
                                (int)line->pos.len, (const char *)line->pos.at);
    return true;
}

static void
test_a_transport_without_frames_receives_each_line_once(void **state)
{
    static const struct session_transport transport = {.send_line = fake_send_line};
    const struct cursor cursor = {.shared = {7, 0}};

    for (int room = 0; room < 6; room++) {
        struct lines socket = {.left = room};
        struct fanout_batch *batch = make_batch(1, 2);

        tear_down(state);
        set_up(state);
        session.socket = (struct session_socket){&socket, &transport};
        session_offer_batch(&hub, &session, batch);
        fanout_batch_unref(batch);
        session_send_control(&session, SESSION_LINE_CONTROL, "{}", 2, NULL);
        session_send_gap(&session, cursor, cursor, "shed");
        session_send_control(&session, SESSION_LINE_ACKED, "[]", 2, NULL);
        hub_send_some(&hub, 1);
        assert_int_equal(session.is_blocked, room < 5);
        socket.left = -1;
        session_writable(&session);
        hub_send_some(&hub, 10);
        assert_string_equal(
            socket.text,
            "0 {} \n"
            "2 {\"t\":\"gap\",\"from\":\"e.7-0\",\"to\":\"e.7-0\",\"why\":\"shed\"} e.7-0\n"
            "1 [] \n"
            "3 {\"t\":\"msg\",\"pos\":\"e.1-0\",\"n\":1} e.1-0\n"
            "3 {\"t\":\"msg\",\"pos\":\"e.2-0\",\"n\":2} e.2-0\n");
        assert_false(session.has_control);
        assert_false(session.is_blocked);
    }
}

static void
test_partial_frames_are_completed_once(void **state)
{
    for (size_t room = 0; room < 169; room++) {
        tear_down(state);
        set_up(state);
        fake.room = room;
        session_send_control(&session, SESSION_LINE_CONTROL, "{}", 2, NULL);
        for (uint64_t ms = 1; ms <= 5; ms++)
            queue_notification(ms, FRAME_PRIORITY_NORMAL);
        hub_send_some(&hub, 1);
        assert_true(session.is_blocked);
        assert_false(hub_send_some(&hub, 10)); /* the socket is full */
        fake.room = room + 1;                  /* the transport buffers a partial frame */
        for (int turns = 0; turns < 300 && !outbound_is_empty(&session.outbound); turns++)
            session_writable(&session);
        fake.room = SIZE_MAX;
        session_writable(&session);
        hub_send_some(&hub, 10);
        assert_string_equal(sent_text(), "{} " MSG("1-0", "1") MSG("2-0", "2") MSG("3-0", "3")
                                             MSG("4-0", "4") MSG("5-0", "5"));
        assert_int_equal(stats.values[STAT_HUB_DELIVERED], 5);
        assert_null(session.outbound.notifications);
    }
}

static void
test_a_batch_is_sent_in_one_piece(void **state)
{
    struct fanout_batch *batch = make_batch(1, 3);

    (void)state;
    session_offer_batch(&hub, &session, batch);
    assert_null(session.outbound.notifications);
    hub_send_some(&hub, 10);
    assert_string_equal(sent_text(), MSG("1-0", "1") MSG("2-0", "2") MSG("3-0", "3"));
    assert_int_equal(stats.values[STAT_HUB_DELIVERED], 3);
    session_offer_batch(&hub, &session, batch); /* offered again for another audience */
    assert_true(outbound_is_empty(&session.outbound));
    assert_int_equal(batch->shared.refs, 1);
    fanout_batch_unref(batch);
}

/* Unblocks the socket and checks that notifications 1 to 5 were sent. */
static void
assert_rest_is_sent(void)
{
    fake.room = SIZE_MAX;
    session_writable(&session);
    hub_send_some(&hub, 10);
    assert_string_equal(sent_text(), MSG("1-0", "1") MSG("2-0", "2") MSG("3-0", "3") MSG("4-0", "4")
                                         MSG("5-0", "5"));
    assert_int_equal(stats.values[STAT_HUB_DELIVERED], 5);
}

static void
test_a_batch_can_be_written_in_parts(void **state)
{
    for (size_t room = 0; room < 140; room++) {
        struct fanout_batch *batch = make_batch(1, 3);

        tear_down(state);
        set_up(state);
        fake.room = room;
        session_offer_batch(&hub, &session, batch);
        fanout_batch_unref(batch);
        hub_send_some(&hub, 10);
        batch = make_batch(4, 2); /* sent after the first batch */
        session_offer_batch(&hub, &session, batch);
        fanout_batch_unref(batch);
        assert_rest_is_sent();
    }
}

/* Adds the references of many sessions that have queued the batch. */
static void
share_queued(struct fanout_batch *batch)
{
    batch->shared.refs += MERGED_BATCH_SHARES;
}

static void
leave(struct fanout_batch *batch)
{
    batch->shared.refs -= MERGED_BATCH_SHARES - 1;
    fanout_batch_unref(batch);
}

/* Offers a batch as hub_fan_out does, while many sessions have the previous batch queued. */
static void
offer_batch(struct fanout_batch *batch)
{
    struct fanout_batch *waiting = session.outbound.batch;

    if (waiting != NULL)
        share_queued(waiting);
    session_offer_batch(&hub, &session, batch);
    merged_batch_end(&hub.merged);
    fanout_batch_unref(batch);
    if (waiting != NULL)
        leave(waiting);
}

static void
test_queued_batches_are_merged(void **state)
{
    for (size_t room = 0; room < 240; room++) {
        tear_down(state);
        set_up(state);
        fake.room = room;
        offer_batch(make_batch(1, 2));
        offer_batch(make_batch(3, 1));
        offer_batch(make_batch(4, 2));
        assert_null(session.outbound.notifications);
        assert_int_equal(session.outbound.batch->count, 5);
        hub_send_some(&hub, 10);
        assert_int_equal(fake.calls, 1);
        assert_rest_is_sent();
    }
}

static void
test_batches_of_one_session_are_not_merged(void **state)
{
    (void)state;
    for (uint64_t ms = 1; ms <= 3; ms++) {
        struct fanout_batch *batch = make_batch(ms, 1);

        session_offer_batch(&hub, &session, batch);
        fanout_batch_unref(batch);
    }
    assert_null(hub.merged.whole);
    assert_int_equal(session.outbound.count, 3);
}

static void
test_a_poll_receives_no_batches(void **state)
{
    (void)state;
    session.is_poll = true;
    offer_batch(make_batch(1, 2));
    assert_null(session.outbound.batch);
    assert_int_equal(session.outbound.count, 2);
}

static void
test_a_merged_batch_is_shared(void **state)
{
    struct fanout_batch *waiting[] = {make_batch(1, 2), make_batch(3, 1),
                                      make_batch(1, BATCH_COUNT_MAX)};
    struct fanout_batch *next = make_batch(100, 1);
    struct fanout_batch *whole;

    (void)state;
    assert_null(merged_batch_of(&hub.merged, waiting[0], next)); /* too few sessions */
    for (size_t i = 0; i < 3; i++)
        share_queued(waiting[i]);
    whole = merged_batch_of(&hub.merged, waiting[0], next);
    assert_int_equal(whole->count, 3);
    assert_ptr_equal(merged_batch_of(&hub.merged, waiting[0], next), whole);
    assert_int_equal(merged_batch_of(&hub.merged, waiting[1], next)->count, 2);
    assert_null(merged_batch_of(&hub.merged, waiting[2], next)); /* too many */
    for (unsigned i = hub.merged.made; i < MERGED_BATCHES_MAX; i++)
        assert_non_null(merged_batch_of(&hub.merged, waiting[i % 2], next));
    assert_null(merged_batch_of(&hub.merged, waiting[MERGED_BATCHES_MAX % 2], next));
    merged_batch_end(&hub.merged);
    assert_non_null(merged_batch_of(&hub.merged, waiting[0], next));
    merged_batch_end(&hub.merged);
    for (size_t i = 0; i < 3; i++) {
        leave(waiting[i]);
        fanout_batch_unref(waiting[i]);
    }
    fanout_batch_unref(next);
}

static void
test_a_higher_priority_is_not_merged(void **state)
{
    struct notification *high = make_notification(3, FRAME_PRIORITY_HIGH);

    (void)state;
    offer_batch(make_batch(1, 2));
    offer_batch(fanout_batch_new(&high, 1));
    notification_unref(high);
    hub_send_some(&hub, 10);
    assert_string_equal(sent_text(),
                        MSG("0-18446744073709551615", "3") MSG("1-0", "1") MSG("2-0", "2"));
}

static void
test_an_expired_batch_is_not_merged(void **state)
{
    struct fanout_batch *batch = make_batch(1, 1);

    (void)state;
    session_offer_batch(&hub, &session, batch);
    batch->expires_us = batch->notifications[0]->expires_us = clock_wall_us();
    fanout_batch_unref(batch);
    offer_batch(make_batch(2, 1));
    while (hub_send_some(&hub, 10))
        ;
    assert_string_equal(sent_text(),
                        "{\"t\":\"gap\",\"from\":\"e.0-18446744073709551615\",\"to\":\"e.1-0\","
                        "\"why\":\"expired\"} " MSG("2-0", "2"));
}

/* Their slots become free for deferred notifications. */
static void
test_expired_notifications_leave_the_in_flight_window(void **state)
{
    struct notification *notification = make_notification(1, FRAME_PRIORITY_NORMAL);

    (void)state;
    session.inflight.size = 1;
    notification->needs_ack = true;
    session_offer(&session, notification);
    assert_int_equal(session.inflight.count, 1);
    notification->expires_us = clock_wall_us();
    notification_unref(notification);
    session_send(&hub, &session);
    assert_int_equal(session.outbound.count, 0);
    assert_int_equal(session.inflight.count, 0);
    assert_true((session.ready & READY_REFILL) != 0);
    free(session.inflight.entries);
    free(session.row_order);
}

static void
test_a_batch_has_one_set_of_recipients(void **state)
{
    struct notification *notifications[] = {make_notification(1, FRAME_PRIORITY_NORMAL),
                                            make_notification(2, FRAME_PRIORITY_NORMAL),
                                            make_notification(3, FRAME_PRIORITY_HIGH)};

    (void)state;
    assert_int_equal(fanout_batch_span(notifications, 3), 2);
    notifications[1]->needs_ack = true;
    assert_int_equal(fanout_batch_span(notifications, 3), 1);
    assert_int_equal(fanout_batch_span(notifications + 1, 2), 0);
    for (size_t i = 0; i < 3; i++)
        notification_unref(notifications[i]);
}

static void
test_high_precedes_normal_precedes_low(void **state)
{
    (void)state;
    queue_notification(1, FRAME_PRIORITY_LOW);
    queue_notification(2, FRAME_PRIORITY_NORMAL);
    queue_notification(3, FRAME_PRIORITY_HIGH);
    queue_notification(4, FRAME_PRIORITY_NORMAL);
    queue_notification(5, FRAME_PRIORITY_HIGH);
    queue_notification(6, FRAME_PRIORITY_LOW);
    hub_send_some(&hub, 10);
    /* The cursor stays before notifications that others have overtaken. */
    assert_string_equal(sent_text(),
                        MSG("0-18446744073709551615", "3") MSG("0-18446744073709551615", "5")
                            MSG("0-18446744073709551615", "2") MSG("0-18446744073709551615", "4")
                                MSG("1-0", "1") MSG("6-0", "6"));
    assert_int_equal(session.outbound.bytes, 0);
}

static void
test_a_poll_has_no_priorities(void **state)
{
    (void)state;
    session.is_poll = true;
    queue_notification(1, FRAME_PRIORITY_LOW);
    queue_notification(2, FRAME_PRIORITY_HIGH);
    hub_send_some(&hub, 10);
    assert_string_equal(sent_text(), MSG("1-0", "1") MSG("2-0", "2"));
}

static void
test_a_higher_priority_splits_a_batch(void **state)
{
    struct fanout_batch *batch = make_batch(1, 2);

    (void)state;
    session_offer_batch(&hub, &session, batch);
    fanout_batch_unref(batch);
    queue_notification(3, FRAME_PRIORITY_HIGH);
    hub_send_some(&hub, 10);
    assert_string_equal(sent_text(),
                        MSG("0-18446744073709551615", "3") MSG("1-0", "1") MSG("2-0", "2"));
}

static void
test_a_full_queue_pauses_and_loses_nothing(void **state)
{
    uint64_t ms = 0;

    (void)state;
    fake.room = 0;
    session_send_control(&session, SESSION_LINE_CONTROL, "{}", 2, NULL);
    hub_send_some(&hub, 10);
    while (session.state == SESSION_LIVE && ms < 1000) {
        struct notification *notification = make_notification(++ms, FRAME_PRIORITY_NORMAL);

        session_offer(&session, notification);
        replay_buffer_add(&hub.replay_buffer, notification);
        notification_unref(notification);
    }
    assert_int_equal(session.state, SESSION_STREAM);
    assert_int_equal(session.cursor.shared.ms, ms - 1); /* the last notification is read later */
    assert_int_equal(session.outbound.count, ms - 1);
    assert_null(session_slow(&session, session.stall.accepted_us));
    assert_non_null(session_slow(&session, session.stall.accepted_us + 1000000));
    for (int i = 0; i < 100; i++) {
        struct notification *notification = make_notification(++ms, FRAME_PRIORITY_NORMAL);

        session_offer(&session, notification); /* ignored while paused */
        replay_buffer_add(&hub.replay_buffer, notification);
        notification_unref(notification);
    }
    fake.room = 100;
    session_writable(&session); /* the socket accepts some bytes: slow, but not stuck */
    assert_true(session.is_blocked);
    assert_null(session_slow(&session, session.stall.accepted_us + 1000000));
    fake.room = SIZE_MAX;
    session_writable(&session);
    assert_null(session_slow(&session, clock_monotonic_us() + 1000000000));
    while (hub_send_some(&hub, 10))
        continue;
    assert_int_equal(stats.values[STAT_HUB_DELIVERED], ms);
    assert_int_equal(session.cursor.shared.ms, ms);
    assert_int_equal(session.state, SESSION_LIVE);
    replay_buffer_reset(&hub.replay_buffer, hub.replay_buffer.head);
}

static void
test_a_socket_that_accepts_nothing_is_slow(void **state)
{
    int64_t now_us = clock_monotonic_us();

    (void)state;
    fake.room = 0;
    queue_notification(1, FRAME_PRIORITY_NORMAL);
    hub_send_some(&hub, 10);
    assert_null(session_slow(&session, now_us + 29000000));
    assert_non_null(session_slow(&session, now_us + 90000000));
}

static void
test_a_notification_in_many_queues_counts_once(void **state)
{
    struct session other = session;
    struct notification *notification = make_notification(1, FRAME_PRIORITY_NORMAL);
    size_t bytes;

    (void)state;
    session_queue(&session, notification);
    bytes = hub.queued_bytes;
    assert_true(bytes > notification->text_len);
    session_queue(&other, notification);
    assert_int_equal(hub.queued_bytes, bytes);
    outbound_clear(&session.outbound, &hub.queued_bytes);
    assert_int_equal(hub.queued_bytes, bytes);
    outbound_clear(&other.outbound, &hub.queued_bytes);
    notification_unref(notification);
}

/* Offers a notification. True if it was queued. */
static bool
offer_is_queued(uint64_t ms, uint8_t priority, uint8_t type, bool needs_ack)
{
    struct notification *notification = make_notification(ms, priority);
    unsigned before = session.outbound.count;

    notification->frame.as.notification.type = type;
    notification->needs_ack = needs_ack;
    session_offer(&session, notification);
    notification_unref(notification);
    return session.outbound.count > before;
}

static void
test_load_shedding_drops_by_priority_and_type(void **state)
{
    (void)state;
    session.inflight.size = 10;
    hub.shed.hold[0] = (struct entry_id){100, 0};
    assert_true(offer_is_queued(101, FRAME_PRIORITY_LOW, FRAME_TYPE_REALTIME, false));
    hub.shed.pressure.level = PRESSURE_LOW;
    assert_false(offer_is_queued(102, FRAME_PRIORITY_LOW, FRAME_TYPE_REALTIME, false));
    assert_true(offer_is_queued(103, FRAME_PRIORITY_NORMAL, FRAME_TYPE_REALTIME, false));
    assert_true(offer_is_queued(104, FRAME_PRIORITY_LOW, FRAME_TYPE_NOTIFICATION, false));
    hub.shed.pressure.level = PRESSURE_NORMAL;
    assert_false(offer_is_queued(105, FRAME_PRIORITY_LOW, FRAME_TYPE_REALTIME, false));
    assert_false(offer_is_queued(106, FRAME_PRIORITY_NORMAL, FRAME_TYPE_REALTIME, false));
    assert_true(offer_is_queued(107, FRAME_PRIORITY_HIGH, FRAME_TYPE_REALTIME, false));
    assert_true(offer_is_queued(108, FRAME_PRIORITY_NORMAL, FRAME_TYPE_NOTIFICATION, false));
    assert_true(offer_is_queued(109, FRAME_PRIORITY_LOW, FRAME_TYPE_SYSTEM, false));
    session.is_poll = true;
    assert_true(offer_is_queued(110, FRAME_PRIORITY_LOW, FRAME_TYPE_REALTIME, false));
    session.is_poll = false;
    session.cursor.shared = (struct entry_id){99, 0}; /* before load shedding */
    assert_true(offer_is_queued(100, FRAME_PRIORITY_LOW, FRAME_TYPE_REALTIME, false));
    assert_int_equal(stats.values[STAT_HUB_SHED_LOW], 2);
    assert_int_equal(stats.values[STAT_HUB_SHED_NORMAL], 1);
}

static void
test_a_batch_contains_no_dropped_notification(void **state)
{
    struct notification *notifications[] = {make_notification(101, FRAME_PRIORITY_NORMAL),
                                            make_notification(102, FRAME_PRIORITY_NORMAL),
                                            make_notification(103, FRAME_PRIORITY_LOW)};

    (void)state;
    hub.shed.hold[0] = (struct entry_id){100, 0};
    assert_int_equal(shed_count_kept(&hub, notifications, 3), 3);
    hub.shed.pressure.level = PRESSURE_LOW;
    assert_int_equal(shed_count_kept(&hub, notifications, 3), 2);
    assert_int_equal(shed_count_kept(&hub, notifications + 2, 1), 0);
    for (size_t i = 0; i < 3; i++)
        notification_unref(notifications[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_headers_of_websocket_frames),
        TEST(test_control_frames_are_sent_first),
        TEST(test_a_transport_without_frames_receives_each_line_once),
        TEST(test_partial_frames_are_completed_once),
        TEST(test_a_batch_is_sent_in_one_piece),
        TEST(test_a_batch_can_be_written_in_parts),
        TEST(test_queued_batches_are_merged),
        TEST(test_batches_of_one_session_are_not_merged),
        TEST(test_a_poll_receives_no_batches),
        TEST(test_a_merged_batch_is_shared),
        TEST(test_a_higher_priority_is_not_merged),
        TEST(test_an_expired_batch_is_not_merged),
        TEST(test_expired_notifications_leave_the_in_flight_window),
        TEST(test_a_batch_has_one_set_of_recipients),
        TEST(test_high_precedes_normal_precedes_low),
        TEST(test_a_poll_has_no_priorities),
        TEST(test_a_higher_priority_splits_a_batch),
        TEST(test_a_full_queue_pauses_and_loses_nothing),
        TEST(test_a_socket_that_accepts_nothing_is_slow),
        TEST(test_a_notification_in_many_queues_counts_once),
        TEST(test_load_shedding_drops_by_priority_and_type),
        TEST(test_a_batch_contains_no_dropped_notification),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
