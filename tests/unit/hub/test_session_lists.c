/* test_session_lists.c: a session sends pages of rows between notifications, and reloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <utlist.h>

#include "rows/rows_private.h"
#include "hub/live_rows.h"
#include "tests/unit/hub/queued_notifications.h"

#define HEADER "{\"key\":[\"id\"],\"snapshot\":\"5:9:7\",\"audience\":\"%s\",\"judge\":[\"a\"]}"
#define RELOAD "{\"t\":\"reload\",\"source\":\"t\",\"rule\":\"a\\\"b\"} "
#define PAGE(r, rows, more)                                                                        \
    "{\"t\":\"rows\",\"r\":" r ",\"key\":[\"id\"],\"snapshot\":\"5:9:7\",\"judge\":[\"a\"],"       \
    "\"rows\":[" rows "],\"more\":" more "} "

static const struct bytes STRUCTURE = {(const unsigned char *)"STRUCTURE", 9};
static const struct bytes OTHER = {(const unsigned char *)"OTHER", 5};
static size_t held;

/* A result with one row; the caller owns a reference. */
static struct rows_result *
make_result(const char *audience, const char *row)
{
    struct rows_result *result = rows_result_new(10, 4 << 20, &held);
    char header[200];

    snprintf(header, sizeof(header), HEADER, audience);
    assert_int_equal(rows_result_add(result, header, strlen(header)), RC_OK);
    assert_int_equal(rows_result_add(result, row, strlen(row)), RC_OK);
    return result;
}

static struct list_request *
add_request(int64_t request_id)
{
    struct list_request *request = lists_request(&session, "t", "a\"b", request_id);

    assert_non_null(request);
    return request;
}

/* All bytes sent since the last call. */
static const char *
sent(void)
{
    const char *text;

    for (int turn = 0; turn < 10; turn++)
        hub_send_some(&hub, 10);
    text = sent_text();
    fake.len = 0;
    hub.list_frames = 0;
    return text;
}

static int
end(void **state)
{
    lists_free(&session);
    assert_int_equal(held, 0);
    return tear_down(state);
}

static void
give(struct list_request *request, const char *audience)
{
    struct rows_result *result = make_result(audience, "1");

    lists_rows_received(request, ROWS_OK, result, 0);
    assert_string_equal(sent(), PAGE("3", "1", "false"));
    rows_result_unref(result);
}

static void
results_and_errors_are_sent_in_order(void **state)
{
    struct list_request *first = add_request(1), *second = add_request(2), *third = add_request(3);
    struct rows_result *result = make_result("USER", "{\"id\":1}");

    (void)state;
    assert_string_equal(sent(), "");
    lists_rows_received(third, ROWS_OK, result, 0);
    lists_rows_received(first, ROWS_DENIED, NULL, 0);
    lists_rows_received(second, ROWS_BUSY, NULL, 1500);
    assert_string_equal(
        sent(),
        PAGE("3", "{\"id\":1}",
             "false") "{\"t\":\"err\",\"r\":1,\"code\":103,\"msg\":\"no such live rule for this "
                      "user: rule \\\"a\\\"b\\\" of \\\"t\\\"\",\"retry\":false} "
                      "{\"t\":\"err\",\"r\":2,\"code\":111,\"msg\":\"too many requests for rows\","
                      "\"after\":1500,\"retry\":true} ");
    rows_result_unref(result);
    assert_string_equal(sent(), "");
}

static void
nothing_is_sent_before_connected(void **state)
{
    struct list_request *request = add_request(1);

    (void)state;
    session.state = SESSION_LOADING;
    session.requests.is_awaited = true; /* prevents the session from advancing */
    lists_rows_received(request, ROWS_DENIED, NULL, 0);
    assert_string_equal(sent(), "");
    session.state = SESSION_PENDING;
    session_send_control(&session, SESSION_LINE_CONTROL, "{}", 2, NULL); /* the connected message */
    assert_string_equal(sent(),
                        "{} {\"t\":\"err\",\"r\":1,\"code\":103,\"msg\":\"no such live "
                        "rule for this user: rule \\\"a\\\"b\\\" of \\\"t\\\"\",\"retry\":false} ");
}

/* A socket that accepts only complete frames: their bytes and number. */
struct large {
    size_t bytes;
    int frames;
    size_t longest;
    bool is_full;
};

static enum rc
large_send(void *socket, const struct session_pieces *pieces, size_t *ret_written)
{
    struct large *to = socket;

    *ret_written = 0;
    if (to->is_full)
        return RC_AGAIN;
    for (int i = 0; i < pieces->count; i++) {
        *ret_written += pieces->at[i].iov_len;
        to->bytes += pieces->at[i].iov_len;
        to->frames++;
        if (pieces->at[i].iov_len > to->longest)
            to->longest = pieces->at[i].iov_len;
    }
    return RC_OK;
}

static const struct session_transport LARGE = {.send = large_send};

static void
notifications_are_sent_between_pages(void **state)
{
    struct large socket = {.is_full = true};
    struct rows_result *result = make_result("ALL", "0");
    struct list_request *request = add_request(1);
    char *row = calloc(1, 200001);

    (void)state;
    memset(row, 'x', 200000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(rows_result_add(result, row, 200000), RC_OK);
    session.socket = (struct session_socket){&socket, &LARGE};
    lists_rows_received(request, ROWS_OK, result, 0);
    hub_send_some(&hub, 1);
    assert_true(session.is_blocked);
    assert_int_equal(socket.frames, 0);
    socket.is_full = false;
    session_writable(&session);
    assert_int_equal(socket.frames, 1); /* one page at a time */
    queue_notification(1, FRAME_PRIORITY_NORMAL);
    hub_send_some(&hub, 1);
    assert_int_equal(socket.frames, 3);
    hub_send_some(&hub, 10);
    assert_int_equal(socket.frames, 6);
    assert_true(socket.bytes > 1000000);
    assert_true(socket.longest <= ROWS_PAGE_MAX + WS_TEXT_HEAD_MAX);
    assert_int_equal(hub.queued_bytes, 0);
    rows_result_unref(result);
    free(row);
}

static void
pages_of_one_turn_are_limited(void **state)
{
    struct rows_result *result = make_result("ALL", "1");
    int count = 0;

    (void)state;
    for (int i = 0; i < 40; i++)
        lists_rows_received(add_request(3), ROWS_OK, result, 0);
    hub_send_some(&hub, 1000);
    for (const char *at = sent_text(); (at = strstr(at, "\"t\":\"rows\"")) != NULL; at++)
        count++;
    assert_int_equal(count, 16);
    hub.list_frames = 0;
    hub_send_some(&hub, 1000);
    hub.list_frames = 0;
    hub_send_some(&hub, 1000);
    assert_null(session.control.lists->sending);
    rows_result_unref(result);
}

static void
unread_requests_are_limited(void **state)
{
    (void)state;
    for (int i = 0; i < SESSION_LIST_REQUESTS_MAX; i++)
        lists_rows_received(add_request(i), ROWS_DENIED, NULL, 0);
    assert_null(lists_request(&session, "t", "r", 1));
    hub_send_some(&hub, 10);
    assert_non_null(lists_request(&session, "t", "r", 1));
}

static void
reload_follows_a_change_of_its_groups(void **state)
{
    (void)state;
    lists_reload(&session, &STRUCTURE, true); /* the session has no list */
    give(add_request(3), "STRUCTURE+ROLE");
    lists_reload(&session, &OTHER, true);
    assert_string_equal(sent(), "");
    lists_reload(&session, &STRUCTURE, true);
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), RELOAD);
    lists_reload(&session, NULL, false);
    assert_string_equal(sent(), RELOAD);
}

static void
other_lists_are_not_reloaded(void **state)
{
    (void)state;
    give(add_request(3), "USER");
    lists_reload(&session, NULL, false);
    assert_string_equal(sent(), "");
    give(add_request(3), "ALL");
    lists_reload(&session, NULL, false);
    assert_string_equal(sent(), "");
}

/* A client without rows needs no reload if the result contains the change. */
static void
pending_result_replaces_a_reload(void **state)
{
    struct list_request *request = add_request(3);

    (void)state;
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), "");
    give(request, "STRUCTURE");
    assert_string_equal(sent(), "");
}

/* The request may be for other rows than those that the client has. */
static void
rows_are_reloaded_while_a_request_waits(void **state)
{
    struct list_request *request;

    (void)state;
    give(add_request(3), "STRUCTURE");
    request = add_request(3);
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), RELOAD);
    assert_string_equal(sent(), "");
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), RELOAD);
    give(request, "STRUCTURE");
    assert_string_equal(sent(), "");
}

static void
reload_precedes_rows_that_may_lack_the_change(void **state)
{
    struct rows_result *result = make_result("STRUCTURE", "1");
    struct list_request *first, *second;

    (void)state;
    give(add_request(3), "STRUCTURE");
    first = add_request(3);
    lists_reload(&session, NULL, false); /* the transaction is unknown */
    lists_rows_received(first, ROWS_OK, result, 0);
    assert_string_equal(sent(), RELOAD PAGE("3", "1", "false"));
    first = add_request(3);
    second = add_request(4);
    lists_rows_received(first, ROWS_OK, result, 0);
    lists_reload(&session, &STRUCTURE, true); /* after the first result */
    lists_rows_received(second, ROWS_LOST, NULL, 1000);
    assert_string_equal(
        sent(),
        RELOAD PAGE("3", "1",
                    "false") "{\"t\":\"err\",\"r\":4,\"code\":111,\"msg\":\"database does not "
                             "reply\",\"after\":1000,\"retry\":true} ");
    rows_result_unref(result);
}

static const struct list_name NAME = {{(const unsigned char *)"t", 1},
                                      {(const unsigned char *)"a\"b", 3}};

static void
reload_of_a_rule_affects_only_its_list(void **state)
{
    const struct list_name others[] = {{NAME.source, NAME.source}, {NAME.rule, NAME.rule}};
    struct list_request *request;

    (void)state;
    lists_reload_rule(&session, &NAME, true); /* the session has no list */
    give(add_request(3), "USER");
    for (size_t i = 0; i < 2; i++)
        lists_reload_rule(&session, &others[i], true);
    assert_string_equal(sent(), "");
    lists_reload_rule(&session, &NAME, true);
    lists_reload_rule(&session, &NAME, true);
    assert_string_equal(sent(), RELOAD);
    lists_reload_rule(&session, NULL, false);
    assert_string_equal(sent(), RELOAD);
    request = add_request(3);
    lists_reload_rule(&session, &NAME, true);
    assert_string_equal(sent(), RELOAD);
    give(request, "USER"); /* the result contains the change */
    assert_string_equal(sent(), "");
}

static void
reload_is_sent_before_the_queue(void **state)
{
    (void)state;
    give(add_request(3), "USER");
    queue_notification(1, FRAME_PRIORITY_NORMAL);
    lists_reload_rule(&session, &NAME, true);
    assert_memory_equal(sent(), RELOAD, strlen(RELOAD));
}

/* The socket accepts one frame at a time. */
static void
blocked_reload_is_sent_before_the_queue(void **state)
{
    struct large socket = {.is_full = true};

    (void)state;
    give(add_request(3), "USER");
    session.socket = (struct session_socket){&socket, &LARGE};
    lists_reload_rule(&session, &NAME, true);
    queue_notification(1, FRAME_PRIORITY_NORMAL);
    hub_send_some(&hub, 10);
    assert_int_equal(socket.frames, 0);
    assert_int_equal(hub.queued_bytes != 0, true);
    socket.is_full = false;
    session_writable(&session);
    assert_int_equal(socket.frames, 2);
    assert_int_equal(hub.queued_bytes, 0);
    hub_send_some(&hub, 10);
    assert_int_equal(socket.frames, 2);
}

static struct rows_result *
make_error(const char *header)
{
    struct rows_result *result = rows_result_new(10, 1000, &held);

    assert_int_equal(rows_result_add(result, header, strlen(header)), RC_OK);
    return result;
}

static void
error_of_a_condition_is_sent(void **state)
{
    struct rows_result *result =
        make_error("{\"error\":107,\"text\":\"column \\\"status\\\": invalid\"}");

    (void)state;
    lists_rows_received(add_request(1), ROWS_INVALID, result, 0);
    assert_string_equal(sent(), "{\"t\":\"err\",\"r\":1,\"code\":107,\"msg\":"
                                "\"column \\\"status\\\": invalid\",\"retry\":false} ");
    rows_result_unref(result);
}

/* The client has other rows of the same rule. */
static void
denied_column_leaves_the_list_as_it_is(void **state)
{
    struct rows_result *result = make_error("{\"error\":103}");

    (void)state;
    give(add_request(3), "STRUCTURE");
    lists_rows_received(add_request(1), ROWS_DENIED, result, 0);
    assert_string_equal(sent(),
                        "{\"t\":\"err\",\"r\":1,\"code\":103,\"msg\":\"no such live rule "
                        "for this user: rule \\\"a\\\"b\\\" of \\\"t\\\"\",\"retry\":false} ");
    lists_reload_rule(&session, &NAME, true);
    assert_string_equal(sent(), RELOAD);
    rows_result_unref(result);
}

static void
error_of_a_condition_leaves_watched_rows_as_they_are(void **state)
{
    struct rows_result *denied = make_error("{\"error\":103}");
    struct rows_result *invalid = make_error("{\"error\":107,\"text\":\"x\"}");

    (void)state;
    session_watch_rows(&session, "t", "a\"b");
    for (int i = 0; i < 2; i++) {
        lists_rows_received(add_request(1), i == 0 ? ROWS_DENIED : ROWS_INVALID,
                            i == 0 ? denied : invalid, 0);
        assert_string_not_equal(sent(), "");
        lists_reload_rule(&session, &NAME, true);
        assert_string_equal(sent(), RELOAD);
    }
    rows_result_unref(denied);
    rows_result_unref(invalid);
}

/* Two lists of one rule with different conditions: the result of one does not renew the other. */
static void
rows_with_conditions_do_not_replace_a_reload(void **state)
{
    struct list_request *request = add_request(3);
    struct rows_result *result = make_result("STRUCTURE", "1");

    (void)state;
    request->list->is_partial = true;
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), "");
    lists_rows_received(request, ROWS_OK, result, 0);
    assert_string_equal(sent(), RELOAD PAGE("3", "1", "false"));
    rows_result_unref(result);
}

static void
list_with_too_many_rows_is_reloaded(void **state)
{
    (void)state;
    lists_rows_received(add_request(1), ROWS_TOO_MANY, NULL, 0);
    assert_string_equal(sent(), "{\"t\":\"err\",\"r\":1,\"code\":113,\"msg\":\"too many rows\","
                                "\"retry\":false} ");
    lists_reload_rule(&session, &NAME, true);
    assert_string_equal(sent(), RELOAD);
}

static void
list_that_was_denied_is_reloaded_after_a_change_of_memberships(void **state)
{
    (void)state;
    give(add_request(3), "STRUCTURE");
    lists_rows_received(add_request(3), ROWS_DENIED, NULL, 0);
    assert_string_not_equal(sent(), "");
    for (int i = 0; i < 2; i++) {
        lists_reload(&session, i == 0 ? &STRUCTURE : &OTHER, true);
        assert_string_equal(sent(), RELOAD);
    }
    give(add_request(3), "STRUCTURE");
    lists_reload(&session, &OTHER, true);
    assert_string_equal(sent(), "");
}

static void
membership_that_changes_before_a_denial_causes_a_reload(void **state)
{
    struct list_request *request = add_request(1);

    (void)state;
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), "");
    lists_rows_received(request, ROWS_DENIED, NULL, 0);
    assert_string_equal(
        sent(), "{\"t\":\"err\",\"r\":1,\"code\":103,\"msg\":\"no such live rule "
                "for this user: rule \\\"a\\\"b\\\" of \\\"t\\\"\",\"retry\":false} " RELOAD);
}

/* Requests the rows of the rule with this number, which is denied. */
static void
deny(int number)
{
    char rule[20];

    snprintf(rule, sizeof(rule), "%d", number);
    lists_rows_received(lists_request(&session, "t", rule, number), ROWS_DENIED, NULL, 0);
    assert_string_not_equal(sent(), "");
}

static void
only_the_newest_denied_lists_are_kept(void **state)
{
    const struct session_list *list;
    unsigned count = 0;

    (void)state;
    for (int i = 0; i < 3 * SESSION_UNVERIFIED_LISTS_MAX; i++)
        deny(i);
    DL_COUNT(session.control.lists->lists, list, count);
    assert_int_equal(count, SESSION_UNVERIFIED_LISTS_MAX);
    assert_string_equal(session.control.lists->lists->rule, "64"); /* only the newest 32 are kept */
    deny(64);
    DL_COUNT(session.control.lists->lists, list, count);
    assert_int_equal(count, SESSION_UNVERIFIED_LISTS_MAX);
}

/* Otherwise a user whom the rule does not address would learn that the rule exists. */
static void
denied_list_is_not_reloaded_after_a_change_of_its_rule(void **state)
{
    struct list_request *request = add_request(1);

    (void)state;
    lists_reload_rule(&session, &NAME, false); /* before the result */
    lists_rows_received(request, ROWS_DENIED, NULL, 0);
    assert_null(strstr(sent(), "reload"));
    lists_reload_rule(&session, &NAME, false);
    assert_string_equal(sent(), "");
    session_watch_rows(&session, "t", "a\"b");
    lists_reload_rule(&session, &NAME, true);
    assert_string_equal(sent(), "");
    give(add_request(3), "STRUCTURE");
    lists_reload_rule(&session, &NAME, true);
    assert_string_equal(sent(), RELOAD);
}

static void
rows_of_the_application_are_reloaded(void **state)
{
    const struct session_list *list;
    unsigned count = 0;
    char rule[20];

    (void)state;
    session_watch_rows(&session, "t", "a\"b");
    session_watch_rows(&session, "t", "a\"b");
    assert_string_equal(sent(), "");
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), RELOAD);
    lists_reload_rule(&session, &NAME, true);
    assert_string_equal(sent(), RELOAD);
    give(add_request(3), "USER"); /* the audience is now known */
    session_watch_rows(&session, "t", "a\"b");
    lists_reload(&session, &STRUCTURE, true);
    assert_string_equal(sent(), "");
    for (int i = 0; i < 3 * SESSION_UNVERIFIED_LISTS_MAX; i++) {
        snprintf(rule, sizeof(rule), "%d", i);
        session_watch_rows(&session, "t", rule);
    }
    DL_COUNT(session.control.lists->lists, list, count);
    assert_int_equal(count, 1 + SESSION_UNVERIFIED_LISTS_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, end)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(results_and_errors_are_sent_in_order),
        CASE(nothing_is_sent_before_connected),
        CASE(notifications_are_sent_between_pages),
        CASE(pages_of_one_turn_are_limited),
        CASE(unread_requests_are_limited),
        CASE(reload_follows_a_change_of_its_groups),
        CASE(other_lists_are_not_reloaded),
        CASE(pending_result_replaces_a_reload),
        CASE(rows_are_reloaded_while_a_request_waits),
        CASE(reload_precedes_rows_that_may_lack_the_change),
        CASE(reload_of_a_rule_affects_only_its_list),
        CASE(reload_is_sent_before_the_queue),
        CASE(blocked_reload_is_sent_before_the_queue),
        CASE(list_with_too_many_rows_is_reloaded),
        CASE(error_of_a_condition_is_sent),
        CASE(denied_column_leaves_the_list_as_it_is),
        CASE(error_of_a_condition_leaves_watched_rows_as_they_are),
        CASE(rows_with_conditions_do_not_replace_a_reload),
        CASE(list_that_was_denied_is_reloaded_after_a_change_of_memberships),
        CASE(membership_that_changes_before_a_denial_causes_a_reload),
        CASE(denied_list_is_not_reloaded_after_a_change_of_its_rule),
        CASE(only_the_newest_denied_lists_are_kept),
        CASE(rows_of_the_application_are_reloaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
