/* test_audience.c: sessions join and leave audiences; notifications are written as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/unit/heads.h"
#include "hub/hub_private.h"
#include "wire/frame.h"

#define TEXT(text) ((struct bytes){(const unsigned char *)(text), sizeof(text) - 1})

/* A notification for USER u1 whose data is `data`. */
static struct notification *
make_notification(uint64_t ms, const char *data)
{
    unsigned char head[HEAD_FOR_U1];
    struct entry entry = {.id = {ms, 0}};

    head_for_u1(head);
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)data, strlen(data)};
    return notification_new(&entry, false, "e", &entry.id, 1);
}

/* The text of a notification that has all its bytes. */
static const unsigned char *
text_of(const struct notification *notification)
{
    return notification->ws + notification->ws_len - notification->text_len;
}

static void
test_a_notification_is_written_as_json(void **state)
{
    struct notification *notification = make_notification(7, "{\"x\":1}");
    const char *line = "{\"t\":\"msg\",\"pos\":\"e.7-0\",\"n\":{\"x\":1}}";

    (void)state;
    assert_int_equal(notification->text_len, strlen(line));
    assert_memory_equal(text_of(notification), line, notification->text_len);
    assert_false(notification->needs_ack);
    notification_unref(notification);
}

/* The JSON of a notification for ALL with a transaction and a rule, without its data. */
static void
assert_line(uint64_t xid, uint16_t flags, const char *rule, const char *expected)
{
    unsigned char head[HEAD_FOR_ALL + LIMIT_RULE];
    const size_t len = strlen(rule);
    struct entry entry = {.id = {7, 0}, .data = {(const unsigned char *)"1", 1}};
    struct notification *notification, *moved;

    head_for_all(head);
    bytes_put_u64(head + FRAME_NOTIFICATION_AT_XID, xid);
    bytes_put_u16(head + FRAME_AT_FLAGS, flags);
    bytes_put_u16(head + FRAME_NOTIFICATION_AT_RULE_LEN, (uint16_t)len);
    memcpy(head + HEAD_FOR_ALL, rule, len);
    assert_int_equal(frame_parse_header((struct bytes){head, HEAD_FOR_ALL + len}, &entry.frame),
                     RC_OK);
    notification = notification_new(&entry, false, "e", &entry.id, 1);
    assert_int_equal(notification->text_len, strlen(expected));
    assert_memory_equal(text_of(notification), expected, notification->text_len);
    moved = notification_new_at(notification, "e", &entry.id, NULL);
    assert_int_equal(moved->text_len, notification->text_len);
    assert_memory_equal(text_of(moved), expected, notification->text_len);
    assert_memory_equal(moved->data.at, "1", 1);
    notification_unref(moved);
    notification_unref(notification);
}

/* Sessions that read the same entry, or report another cursor, need no memory for the document. */
static void
test_copies_of_a_large_notification_share_its_document(void **state)
{
    const size_t len = 300 * 1024;
    const struct entry_id before = {6, 0};
    char *data = calloc(1, len + 1);
    struct notification *first, *again, *moved;

    (void)state;
    memset(data, '1', len);
    first = make_notification(7, data);
    again = make_notification(7, data);
    moved = notification_new_at(again, "e", &before, NULL);
    assert_ptr_equal(again->source, first);
    assert_ptr_equal(moved->source, first);
    assert_ptr_equal(again->rest.at, first->data.at);
    assert_int_equal(moved->ws_len, first->ws_len);
    assert_int_equal(moved->ws_len - moved->rest.len, first->ws_len - len - 1);
    assert_memory_equal(again->ws, first->ws, again->ws_len - again->rest.len);
    assert_true(memcmp(moved->ws, first->ws, moved->ws_len - moved->rest.len) < 0);
    assert_true(moved->shared.size < 1024);
    notification_unref(first); /* the copies keep it */
    notification_unref(again);
    assert_int_equal(moved->rest.at[len], '}');
    notification_unref(moved);
    first = make_notification(7, data);
    assert_null(first->source);
    moved = make_notification(8, data);
    assert_null(moved->source);
    notification_unref(moved);
    notification_unref(first);
    free(data);
}

static void
test_the_json_names_transaction_and_live_rule(void **state)
{
    char longest[LIMIT_RULE + 1];
    char expected[64 + 6 * LIMIT_RULE] = "{\"t\":\"msg\",\"pos\":\"e.7-0\",\"rule\":\"";

    (void)state;
    assert_line(7421, 0, "", "{\"t\":\"msg\",\"pos\":\"e.7-0\",\"x\":\"7421\",\"n\":1}");
    assert_line(7421, 0, "default", "{\"t\":\"msg\",\"pos\":\"e.7-0\",\"x\":\"7421\",\"n\":1}");
    assert_line(UINT64_MAX, FRAME_LIVE, "é \"\\",
                "{\"t\":\"msg\",\"pos\":\"e.7-0\",\"x\":\"18446744073709551615\","
                "\"rule\":\"é \\\"\\\\\",\"n\":1}");
    memset(longest, 1, LIMIT_RULE);
    longest[LIMIT_RULE] = '\0';
    for (int i = 0; i < LIMIT_RULE; i++)
        memcpy(expected + strlen(expected), "\\u0001", 6);
    memcpy(expected + strlen(expected), "\",\"n\":1}", 8);
    assert_line(0, FRAME_LIVE, longest, expected);
}

static void
test_sessions_join_and_leave_audiences(void **state)
{
    struct audience *all = NULL;
    struct session_groups one = {.memberships = NULL}, two = one;
    struct session first = {.state = SESSION_LIVE}, second = {.state = SESSION_LIVE};

    (void)state;
    groups_join(&one, &all, &first, "ROLE:admin", 10, false);
    groups_join(&one, &all, &first, "ROLE:admin", 10, true);
    groups_join(&one, &all, &first, "STRUCTURE:s1", 12, true);
    groups_join(&two, &all, &second, "STRUCTURE:s1", 12, true);
    assert_true(groups_have(&one, TEXT("STRUCTURE"), TEXT("s1")));
    assert_false(groups_have(&one, TEXT("STRUCTURE"), TEXT("s")));
    assert_ptr_equal(audience_find(all, "ROLE:admin", 10)->members->session, &first);

    groups_leave(&one, &all, "ROLE:admin", 10); /* the token's membership remains */
    assert_true(groups_have(&one, TEXT("ROLE"), TEXT("admin")));
    groups_leave(&two, &all, "STRUCTURE:s1", 12);
    assert_true(groups_have(&one, TEXT("STRUCTURE"), TEXT("s1")));
    groups_replace(&one, &all, &first, NULL, 0);
    assert_null(audience_find(all, "STRUCTURE:s1", 12));
    groups_clear(&one, &all);
    assert_null(all);
}

static void
test_a_session_receives_only_its_audiences(void **state)
{
    struct notification *notification = make_notification(1, "{}");
    struct hub hub = {.audiences = NULL};
    struct session session = {.state = SESSION_LIVE, .hub = &hub};

    (void)state;
    assert_false(session_is_recipient(&session, &notification->frame));
    groups_join(&session.groups, &hub.audiences, &session, "USER:u11", 8, false);
    assert_false(session_is_recipient(&session, &notification->frame));
    groups_join(&session.groups, &hub.audiences, &session, "USER:u1", 7, false);
    assert_true(session_is_recipient(&session, &notification->frame));
    groups_clear(&session.groups, &hub.audiences);
    notification_unref(notification);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_notification_is_written_as_json),
        cmocka_unit_test(test_copies_of_a_large_notification_share_its_document),
        cmocka_unit_test(test_the_json_names_transaction_and_live_rule),
        cmocka_unit_test(test_sessions_join_and_leave_audiences),
        cmocka_unit_test(test_a_session_receives_only_its_audiences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
