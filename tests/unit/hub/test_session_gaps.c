/* test_session_gaps.c: each loss is announced as a gap, once and before later notifications. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "hub/hub_private.h"
#include "tests/unit/hub/queued_notifications.h"

enum rc __wrap_store_translate_id(const struct store *store, unsigned shard, struct entry_id *id);
bool __wrap_store_is_serving(const struct store *store);
bool __wrap_store_is_read(const struct store *store, unsigned shard);

static bool is_read; /* the reader reads what the connections of the shards are connected to */

/* Another relay has followed a failover of the store, and this one has not. */
enum rc
__wrap_store_translate_id(const struct store *store, unsigned shard, struct entry_id *id)
{
    (void)store;
    (void)shard;
    (void)id;
    return RC_AGAIN;
}

bool
__wrap_store_is_serving(const struct store *store)
{
    (void)store;
    return true;
}

bool
__wrap_store_is_read(const struct store *store, unsigned shard)
{
    (void)store;
    (void)shard;
    return is_read;
}

static void
test_cursor_of_a_later_failover_waits_before_a_gap(void **state)
{
    char user[] = "u1";

    (void)state;
    session.state = SESSION_LOADING;
    session.client.user = user;
    session.client.attached_us = clock_monotonic_us();
    session.resume.pos = memory_text("e.7-0", 5);
    is_read = true;
    session_load(&session);
    assert_int_equal(session.state, SESSION_LOADING);
    assert_null(session.control.queue);
    session.client.attached_us -= 5000000;
    is_read = false;
    session_load(&session);
    assert_int_equal(session.state, SESSION_LOADING);
    is_read = true;
    session_load(&session);
    assert_int_equal(session.state, SESSION_PENDING);
    assert_non_null(memmem(session.control.queue->frames.bytes, session.control.queue->frames.len,
                           "\"why\":\"epoch\"", strlen("\"why\":\"epoch\"")));
}

/* The cursor before the first lost notification, whose id follows `ms`. */
#define BEFORE(ms) "e." #ms "-18446744073709551615"

static void
test_expiry_in_the_queue_is_announced(void **state)
{
    struct notification *brief = make_notification(2, FRAME_PRIORITY_NORMAL);

    (void)state;
    session.is_blocked = true;
    queue_notification(1, FRAME_PRIORITY_NORMAL);
    session_queue(&session, brief);
    queue_notification(3, FRAME_PRIORITY_NORMAL);
    brief->expires_us = clock_wall_us();
    notification_unref(brief);
    session_writable(&session);
    while (hub_send_some(&hub, 1))
        ;
    assert_string_equal(sent_text(), MSG("1-0", "1") "{\"t\":\"gap\",\"from\":\"" BEFORE(
                                         1) "\",\"to\":\"e.2-0\","
                                            "\"why\":\"expired\"} " MSG("3-0", "3"));
}

/* The control queue has room for few gaps. */
static void
test_consecutive_expiries_are_one_gap(void **state)
{
    (void)state;
    session.is_blocked = true;
    for (uint64_t ms = 1; ms <= 20; ms++) {
        struct notification *brief = make_notification(ms, FRAME_PRIORITY_NORMAL);

        brief->expires_us = clock_wall_us();
        session_queue(&session, brief);
        notification_unref(brief);
    }
    queue_notification(21, FRAME_PRIORITY_NORMAL);
    session_writable(&session);
    assert_string_equal(sent_text(), "{\"t\":\"gap\",\"from\":\"" BEFORE(
                                         0) "\",\"to\":\"e.20-0\","
                                            "\"why\":\"expired\"} " MSG("21-0", "21"));
}

static void
test_expiry_is_announced_before_a_batch(void **state)
{
    struct notification *brief = make_notification(1, FRAME_PRIORITY_NORMAL);
    struct fanout_batch *batch = make_batch(2, 2);

    (void)state;
    brief->expires_us = clock_wall_us();
    session_offer(&session, brief);
    session_offer_batch(&hub, &session, batch);
    notification_unref(brief);
    fanout_batch_unref(batch);
    hub_send_some(&hub, 10);
    assert_string_equal(sent_text(),
                        "{\"t\":\"gap\",\"from\":\"e.0-0\",\"to\":\"e.1-18446744073709551615"
                        "\",\"why\":\"expired\"} " MSG("2-0", "2") MSG("3-0", "3"));
}

/* Acks by another session, for example, can fill the control queue while the socket is blocked. */
static void
test_a_gap_waits_for_room_in_the_control_queue(void **state)
{
    const struct cursor cursor = {.shared = {7, 0}};
    static const char line[] = "{\"t\":\"acked\"}";
    const char *at;

    (void)state;
    session.is_blocked = true;
    while (session_can_send_control(&session, sizeof(line) - 1))
        session_send_control(&session, SESSION_LINE_CONTROL, line, sizeof(line) - 1, NULL);
    session.cursor = cursor;
    session_gap(&session, cursor, cursor, "shed");
    session_writable(&session);
    while (hub_send_some(&hub, 10))
        continue;
    at = strstr(sent_text(), "gap");
    assert_non_null(at);
    assert_null(strstr(at + 1, "gap"));
    assert_non_null(strstr(at, "\"to\":\"e.7-0\",\"why\":\"shed\""));
    assert_false(session.has_control);
    assert_int_equal(stats.values[STAT_HUB_GAPS_SHED], 1);
}

static void
test_no_cursor_is_sent_before_a_gap(void **state)
{
    const struct cursor cursor = {.shared = {7, 0}};
    char pos[SESSION_POS_MAX];

    (void)state;
    session.cursor = cursor;
    session_gap(&session, cursor, cursor, "shed");
    assert_false(session_pos(&session, pos));
    while (hub_send_some(&hub, 10))
        continue;
    assert_true(session_pos(&session, pos));
    assert_string_equal(pos, "e.7-0");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_expiry_in_the_queue_is_announced),
        TEST(test_consecutive_expiries_are_one_gap),
        TEST(test_expiry_is_announced_before_a_batch),
        TEST(test_a_gap_waits_for_room_in_the_control_queue),
        TEST(test_no_cursor_is_sent_before_a_gap),
        TEST(test_cursor_of_a_later_failover_waits_before_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
