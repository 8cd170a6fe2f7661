/* test_session_cursors.c: a client can resume from any reported cursor without a loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "tests/unit/heads.h"
#include "hub/hub_private.h"
#include "tests/unit/hub/one_session.h"

#define SHARDS 3
#define OWN 2 /* the shard of the session's user */

/* The cursors of all frames sent, each followed by a space. */
static char reported[4096];

static void
on_line(const char *line, size_t len)
{
    char text[1024], pos[CLIENT_POS_MAX], to[CLIENT_POS_MAX] = "";
    const char *start, *end;

    assert_in_range(len, 1, sizeof(text) - 1);
    memcpy(text, line, len);
    text[len] = '\0';
    start = strstr(text, "\"e.");
    assert_non_null(start);
    end = strchr(start + 3, '"');
    snprintf(pos, sizeof(pos), "%.*s", (int)(end - start - 3), start + 3);
    if ((start = strstr(end, "\"to\":\"e.")) != NULL)
        snprintf(to, sizeof(to), "..%.*s", (int)strcspn(start + 8, "\""), start + 8);
    snprintf(reported + strlen(reported), sizeof(reported) - strlen(reported), "%s%s ", pos, to);
}

static enum rc
fake_send(void *socket, const struct session_pieces *pieces, size_t *ret_written)
{
    (void)socket;
    *ret_written = 0;
    for (int i = 0; i < pieces->count; i++) {
        const unsigned char *at = pieces->at[i].iov_base, *end = at + pieces->at[i].iov_len;

        for (; at < end; at += ws_frame_len(at))
            on_line((const char *)at + (at[1] < 126 ? 2 : 4),
                    ws_frame_len(at) - (at[1] < 126 ? 2 : 4));
        *ret_written += pieces->at[i].iov_len;
    }
    return RC_OK;
}

static const struct session_transport TRANSPORT = {.send = fake_send};

static int
set_up(void **state)
{
    (void)state;
    open_session(&TRANSPORT, NULL, SHARDS);
    session.client.own_shard = OWN;
    for (unsigned i = 0; i < SHARDS; i++)
        hub.newest[i] = (struct entry_id){1, 0};
    replay_buffer_reset(&hub.replay_buffer, hub.newest);
    reported[0] = '\0';
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    close_session();
    return 0;
}

/* A newly read notification has the hub's cursor. */
static struct notification *
read_notification(unsigned char shard, uint64_t ms, uint8_t priority)
{
    unsigned char head[HEAD_FOR_ALL];
    struct entry entry = {.id = {ms, 0}, .shard = shard};

    head_for_all(head);
    head[FRAME_NOTIFICATION_AT_PRIORITY] = priority;
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)"1", 1};
    hub.newest[shard] = entry.id;
    return notification_new(&entry, false, hub.epoch, shed_reported_heads(&hub), SHARDS);
}

static void
offer(unsigned char shard, uint64_t ms, uint8_t priority)
{
    struct notification *notification = read_notification(shard, ms, priority);

    if (shard == 0 || shard == OWN)
        session_offer(&session, notification);
    replay_buffer_add(&hub.replay_buffer, notification);
    notification_unref(notification);
}

static struct cursor
at(uint64_t shared_ms, uint64_t own_ms)
{
    return (struct cursor){.shared = {shared_ms, 0}, .own = {own_ms, 0}};
}

static const char *
sent(void)
{
    (void)hub_send_some(&hub, 10);
    return reported;
}

static void
test_cursors_report_all_entries_read(void **state)
{
    (void)state;
    offer(0, 100, FRAME_PRIORITY_NORMAL);
    offer(OWN, 90, FRAME_PRIORITY_NORMAL);
    offer(0, 101, FRAME_PRIORITY_NORMAL);
    assert_string_equal(sent(), "100-0.-2r.-2r 100-0.-2r.-a 101-0.-2s.-b ");
    assert_true(cursor_equal(session.cursor, at(101, 90)));
    offer(0, 100, FRAME_PRIORITY_NORMAL);
    offer(OWN, 90, FRAME_PRIORITY_NORMAL);
    assert_int_equal(session.outbound.count, 0);
}

static void
test_an_overtaking_notification_reports_an_earlier_cursor(void **state)
{
    (void)state;
    offer(0, 100, FRAME_PRIORITY_NORMAL);
    offer(OWN, 100, FRAME_PRIORITY_NORMAL);
    offer(OWN, 101, FRAME_PRIORITY_HIGH);
    /* The cursor is before both notifications, in each shard. */
    assert_string_equal(sent(), "99-18446744073709551615..-2q 100-0.-2r.-2r 100-0.-2r.0 ");
}

static void
test_an_overtaking_notification_reports_the_latest_safe_cursor(void **state)
{
    (void)state;
    offer(0, 100, FRAME_PRIORITY_HIGH);
    offer(OWN, 100, FRAME_PRIORITY_NORMAL);
    offer(0, 101, FRAME_PRIORITY_HIGH);
    assert_string_equal(sent(), "100-0.-2r.-2r 100-0..-1-3w5e11264sgsf 100-0.-2r.0 ");
}

static void
test_a_poll_never_moves_its_cursor_back(void **state)
{
    struct notification *notification = read_notification(0, 100, FRAME_PRIORITY_NORMAL);

    (void)state;
    session.is_poll = true;
    session.cursor = at(99, 200); /* from the store, ahead of the hub */
    session_offer(&session, notification);
    notification_unref(notification);
    assert_string_equal(sent(), "100-0..2s ");
}

static void
test_no_cursor_passes_dropped_notifications(void **state)
{
    (void)state;
    hub.shed.hold[0] = (struct entry_id){100, 0};
    hub.shed.hold[OWN] = (struct entry_id){90, 0};
    hub.shed.pressure.level = PRESSURE_LOW;
    assert_true(cursor_equal(shed_cursor(&session, at(102, 80)), at(100, 80)));
    assert_true(cursor_equal(shed_cursor(&session, at(99, 95)), at(99, 90)));
    offer(OWN, 95, FRAME_PRIORITY_LOW);
    assert_true(session.control.has_dropped);
    offer(0, 101, FRAME_PRIORITY_HIGH);
    session_gap(&session, at(102, 95), at(103, 95), "expired");
    assert_string_equal(sent(), "100-0..-a..100-0..-a 100-0..-a ");
}

static void
test_a_gap_passes_no_queued_notification(void **state)
{
    (void)state;
    offer(0, 3, FRAME_PRIORITY_NORMAL);
    offer(OWN, 4, FRAME_PRIORITY_NORMAL);
    offer(0, 4, FRAME_PRIORITY_NORMAL);
    session_gap(&session, at(4, 4), at(5, 5), "expired");
    assert_string_equal(sent(), "2-18446744073709551615..-1..2-18446744073709551615..-1 "
                                "3-0.-2.-2 3-0.-2.1 4-0.-3.0 ");
}

/* Reads a notification that needs an ack, for which the in-flight window has no room. */
static void
offer_deferred(unsigned char shard, uint64_t ms)
{
    struct notification *notification = read_notification(shard, ms, FRAME_PRIORITY_NORMAL);

    notification->needs_ack = true;
    session_offer(&session, notification);
    replay_buffer_add(&hub.replay_buffer, notification);
    notification_unref(notification);
}

/* The deferred notification follows all that was read, also what does not address the session. */
static void
test_later_notifications_report_the_deferral(void **state)
{
    struct notification *notification = read_notification(0, 100, FRAME_PRIORITY_NORMAL);

    (void)state;
    session.client.user = (char *)"u1";
    session.client.conn = "c1";
    hub.pair_requests.call_count = 1; /* no report is sent */
    replay_buffer_add(&hub.replay_buffer, notification);
    notification_unref(notification);
    offer_deferred(OWN, 95);
    assert_true(session.has_deferral && session.pending.pass == PASS_DUE);
    assert_true(cursor_equal(session.pending.deferral.from, at(100, 1)));
    assert_true(cursor_equal(session.pending.at, at(100, 1)));
    offer(0, 101, FRAME_PRIORITY_NORMAL);
    session.pending.query_count--; /* the store has replied: it is pending */
    offer(0, 102, FRAME_PRIORITY_NORMAL);
    assert_string_equal(sent(), "101-0..-6!-1~-2s 102-0..-7~-2~-2t ");
    session.pending.query_count++;
    hub.closing = true;
    acks_free(&hub);
}

static void
test_a_paused_session_keeps_its_cursor(void **state)
{
    (void)state;
    offer(0, 10, FRAME_PRIORITY_NORMAL);
    offer(1, 70, FRAME_PRIORITY_NORMAL);
    offer(OWN, 20, FRAME_PRIORITY_NORMAL);
    session.outbound.bytes += 4096;
    offer(0, 11, FRAME_PRIORITY_NORMAL);
    session.outbound.bytes -= 4096;
    assert_int_equal(session.state, SESSION_STREAM);
    assert_true(cursor_equal(session.cursor, at(10, 20)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cursors_report_all_entries_read),
        TEST(test_an_overtaking_notification_reports_an_earlier_cursor),
        TEST(test_an_overtaking_notification_reports_the_latest_safe_cursor),
        TEST(test_a_poll_never_moves_its_cursor_back),
        TEST(test_no_cursor_passes_dropped_notifications),
        TEST(test_a_gap_passes_no_queued_notification),
        TEST(test_later_notifications_report_the_deferral),
        TEST(test_a_paused_session_keeps_its_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
